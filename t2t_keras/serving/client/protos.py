"""TensorFlow Serving's protocol buffers, imported without TensorFlow.

Their modules import others from below `tensorflow`, and Python runs the whole of
TensorFlow on the way there: seconds, and half a gigabyte. So an empty module stands
in its place while they are imported, and is taken away again with all below it. A
later `import tensorflow` finds nothing of it, and the message classes that it makes
are the same: a class belongs to its description in protobuf's own pool.

The package `tensorflow` must be installed all the same: the messages are among its
files.

Threads that import TensorFlow at the same moment would find the stand-in: import
this module before starting them.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator

from t2t_keras.errors import UserError


@contextlib.contextmanager
def _stand_in_for_tensorflow() -> Iterator[None]:
    """Lets modules below `tensorflow` be imported without running its `__init__`."""
    spec = importlib.util.find_spec("tensorflow")
    if "tensorflow" in sys.modules or spec is None:
        yield
        return
    sys.modules["tensorflow"] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _is_tensorflow(name)]:
            del sys.modules[name]


def _is_tensorflow(name: str) -> bool:
    return name.partition(".")[0] == "tensorflow"


try:
    with _stand_in_for_tensorflow():
        from tensorflow.core.framework.tensor_pb2 import TensorProto as TensorProto
        from tensorflow.core.framework.types_pb2 import DataType as DataType
        from tensorflow_serving.apis.predict_pb2 import PredictRequest as PredictRequest
        from tensorflow_serving.apis.prediction_service_pb2_grpc import (
            PredictionServiceStub as PredictionServiceStub,
        )
except ModuleNotFoundError as error:
    raise UserError(
        "To ask a server, the packages tensorflow and tensorflow-serving-api must be "
        f"installed: its messages are in their files. {error}. Install both with pip."
    ) from error
