"""Classify, Regress and MultiInference, which the embedded server refuses."""

from types import MappingProxyType

import pytest
from tensorflow_serving.apis import inference_pb2, model_pb2

from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.other_methods import check_method, multi_inference


class Contract:
    def __init__(self, method_name):
        self.method_name = method_name


SIGNATURES = MappingProxyType(
    {
        "serving_default": Contract("tensorflow/serving/predict"),
        "sort": Contract("tensorflow/serving/classify"),
        "guess": Contract("tensorflow/serving/regress"),
    }
)


def task(signature="", method="tensorflow/serving/classify", model="m"):
    message = inference_pb2.InferenceTask(method_name=method)
    message.model_spec.name = model
    message.model_spec.signature_name = signature
    return message


@pytest.mark.parametrize(
    ("method", "signature", "code", "message"),
    [
        (
            "classify",
            "",
            "INVALID_ARGUMENT",
            "Expected classification signature method_name to be "
            "tensorflow/serving/classify. Was: tensorflow/serving/predict",
        ),
        (
            "regress",
            "sort",
            "INVALID_ARGUMENT",
            "Expected regression signature method_name to be "
            "tensorflow/serving/regress. Was: tensorflow/serving/classify",
        ),
        (
            "regress",
            "nothing",
            "INVALID_ARGUMENT",
            "No signature was found with the name: nothing",
        ),
        (
            "classify",
            "sort",
            "UNIMPLEMENTED",
            "t2t_keras.serve does not classify; tensorflow_model_server does.",
        ),
        (
            "regress",
            "guess",
            "UNIMPLEMENTED",
            "t2t_keras.serve does not regress; tensorflow_model_server does.",
        ),
    ],
)
def test_one_signature(method, signature, code, message):
    spec = model_pb2.ModelSpec(name="m", signature_name=signature)
    with pytest.raises(ServingError) as caught:
        check_method(spec, method, SIGNATURES)
    assert (caught.value.code.name, caught.value.message) == (code, message)


@pytest.mark.parametrize(
    ("tasks", "code", "message"),
    [
        ([task("sort"), task("guess", model="")], "INVALID_ARGUMENT", "empty model"),
        ([task("sort"), task("sort", model="n")], "INVALID_ARGUMENT", "same model"),
        ([task("x")], "INVALID_ARGUMENT", "not found in model graph: x"),
        ([task()], "INVALID_ARGUMENT", "Was: tensorflow/serving/predict"),
        ([task("sort", method="sort")], "UNIMPLEMENTED", "method_name: sort"),
        ([task("sort")], "UNIMPLEMENTED", "tensorflow_model_server does"),
    ],
)
def test_several_signatures(tasks, code, message):
    with pytest.raises(ServingError) as caught:
        multi_inference(inference_pb2.MultiInferenceRequest(tasks=tasks), SIGNATURES)
    assert caught.value.code.name == code
    assert message in caught.value.message
