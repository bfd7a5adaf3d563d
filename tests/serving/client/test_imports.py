"""Imports of the client: neither TensorFlow nor NumPy, and no clash with either."""

import subprocess
import sys

import pytest

LOADED = (
    "print(sorted({n.split('.')[0] for n in sys.modules} & {'tensorflow', 'keras', "
    "'numpy', 'tensorflow_serving', 'tensorflow_text'}))\n"
)
MESSAGE = """
from t2t_keras.serving.client.tensors import PredictRequest, string_tensor
request = PredictRequest()
request.model_spec.version.value = 3
request.inputs["x"].CopyFrom(string_tensor([b"of ours"]))
"""
REAL = """
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2
"""
BOTH = """
real = predict_pb2.PredictRequest.FromString(request.SerializeToString())
assert tf.make_ndarray(real.inputs["x"]).tolist() == [b"of ours"]
assert real.model_spec.version.value == 3
assert request.DESCRIPTOR.full_name == real.DESCRIPTOR.full_name
assert request.DESCRIPTOR.file.pool is not real.DESCRIPTOR.file.pool
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


def test_tensorflow_is_not_imported():
    for code in (
        "import t2t_keras.serving.client.file_translation\n",
        "import t2t_keras; t2t_keras.TranslationClient\n",
        MESSAGE,
    ):
        assert run_code(code + LOADED) == "[]\n", code


@pytest.mark.slow
def test_tensorflow_can_be_imported_after_it():
    """Before it, as the other tests of the client do."""
    assert "tensorflow" in run_code(MESSAGE + REAL + BOTH + LOADED)


@pytest.mark.parametrize(
    ("module", "package"), [("grpc", "grpcio"), ("google.protobuf", "protobuf")]
)
def test_a_missing_package_is_named(module, package):
    code = f"""
sys.modules["{module}"] = None
from t2t_keras.errors import MissingPackage
try:
    import t2t_keras.serving.client.translation_client
except MissingPackage as error:
    print(error)
"""
    message = run_code(code)
    assert message.startswith(f"The client needs the package {package}, which cannot ")
    assert message.endswith(f". Install it: pip install {package}\n")
