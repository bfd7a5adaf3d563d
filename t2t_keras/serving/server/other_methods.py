"""Classify, Regress and MultiInference: methods that translators do not offer.

Their signatures take `tf.Example`s. An export for them is refused here with a status
of its own; any other, with the words of TensorFlow Serving.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

import grpc

from t2t_keras.serving.server.errors import ServingError, invalid_argument
from t2t_keras.serving.server.predict import DEFAULT_SIGNATURE

_PREFIX = "tensorflow/serving/"


def check_method(model_spec: Any, method: str, signatures: Mapping[str, Any]) -> None:
    """Raises the answer to a request to classify or regress.

    Args:
        model_spec: `ModelSpec` of the request.
        method: "classify" or "regress".
        signatures: `SignatureDef`s of the model by name.

    Raises:
        ServingError: Always: INVALID_ARGUMENT if the signature is not there or has
            another method, else UNIMPLEMENTED.
    """
    name = model_spec.signature_name or DEFAULT_SIGNATURE
    if name not in signatures:
        raise invalid_argument(f"No signature was found with the name: {name}")
    _check_signature(signatures[name], method)
    _refuse(method)


def multi_inference(request: Any, signatures: Mapping[str, Any]) -> None:
    """Raises the answer to a `MultiInferenceRequest` for a model.

    Raises:
        ServingError: Always, for its first task that is at fault.
    """
    models = {task.model_spec.name for task in request.tasks}
    if "" in models:
        raise invalid_argument("Found ModelSpec with an empty model name.")
    if len(models) > 1:
        raise invalid_argument(
            "All ModelSpecs in a MultiInferenceRequest must access the same model name."
        )
    for task in request.tasks:
        name = task.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in signatures:
            raise invalid_argument(
                f"Requested signature not found in model graph: {name}"
            )
        method = task.method_name.removeprefix(_PREFIX)
        if task.method_name not in (f"{_PREFIX}classify", f"{_PREFIX}regress"):
            raise ServingError(
                grpc.StatusCode.UNIMPLEMENTED,
                f"Unsupported signature method_name: {task.method_name}",
            )
        _check_signature(signatures[name], method)
    _refuse("run several signatures at once")


def _check_signature(contract: Any, method: str) -> None:
    kind = {"classify": "classification", "regress": "regression"}[method]
    if contract.method_name != f"{_PREFIX}{method}":
        raise invalid_argument(
            f"Expected {kind} signature method_name to be {_PREFIX}{method}. "
            f"Was: {contract.method_name}"
        )


def _refuse(what: str) -> NoReturn:
    raise ServingError(
        grpc.StatusCode.UNIMPLEMENTED,
        f"t2t_keras.serve does not {what}; tensorflow_model_server does.",
    )
