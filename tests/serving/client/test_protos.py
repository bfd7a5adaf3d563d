"""Protocol buffers of the client, loaded without importing TensorFlow."""

import subprocess
import sys

import pytest

LOADED = (
    "print(sorted({n.split('.')[0] for n in sys.modules} & "
    "{'tensorflow', 'keras', 'numpy', 'tensorflow_text'}))\n"
)
MESSAGE = """
from t2t_keras.serving.client.protos import PredictRequest, TensorProto
request = PredictRequest()
request.inputs["x"].string_val.append(b"of ours")
"""
REAL = """
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2
"""
SAME = """
assert tensor_pb2.TensorProto is TensorProto
assert predict_pb2.PredictRequest is PredictRequest
request.inputs["y"].CopyFrom(tf.make_tensor_proto([1, 2]))
assert tf.make_ndarray(request.inputs["y"]).tolist() == [1, 2]
assert tf.keras and int(tf.function(lambda x: x + 1)(tf.constant(2))) == 3
"""


def run_code(code: str) -> str:
    """Returns the output of code in a new process, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "module",
    ["t2t_keras.serving.client.protos", "t2t_keras.serving.client.translation_client"],
)
def test_tensorflow_is_not_imported(module):
    assert run_code(f"import {module}\n{LOADED}") == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", [(MESSAGE, REAL, SAME), (REAL, MESSAGE, SAME)], ids=["after", "before"]
)
def test_tensorflow_can_be_imported_too(order):
    assert "tensorflow" in run_code("".join(order) + LOADED)


WITHOUT_TENSORFLOW = """
import importlib.machinery, sys
class Elsewhere(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] == "tensorflow":
            return None
        return super().find_spec(name, path, target)
at = sys.meta_path.index(importlib.machinery.PathFinder)
sys.meta_path[at] = Elsewhere
"""


def test_without_tensorflow_installed_the_error_names_it():
    code = """
from t2t_keras.errors import UserError
try:
    import t2t_keras.serving.client.translation_client
except UserError as error:
    print(error)
"""
    assert run_code(WITHOUT_TENSORFLOW + code) == (
        "To ask a server, the packages tensorflow and tensorflow-serving-api must be "
        "installed: its messages are in their files. No module named 'tensorflow'. "
        "Install both with pip.\n"
    )


def test_a_failed_import_leaves_no_fake_modules_behind():
    code = """
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow_serving":
            raise ImportError("broken on purpose")
sys.meta_path.insert(0, Broken())
try:
    import t2t_keras.serving.client.protos
except ImportError as error:
    print(error)
"""
    assert run_code(code + LOADED) == "broken on purpose\n[]\n"
