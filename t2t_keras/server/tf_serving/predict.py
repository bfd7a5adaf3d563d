"""Predict requests: inputs checked against a signature, run, and answered.

The checks, their order and their messages are TensorFlow Serving's.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tensorflow_serving.apis import predict_pb2

from t2t_keras.server.tf_serving.errors import failed_precondition, invalid_argument
from t2t_keras.server.tf_serving.session import RunFn
from t2t_keras.server.tf_serving.tensors import to_array, to_proto
from t2t_keras.server.workers import CancelToken

DEFAULT_SIGNATURE = "serving_default"

SignatureDef = Any
PredictRequest = Any
PredictResponse = Any


def predict(
    run: RunFn,
    signatures: Mapping[str, SignatureDef],
    request: PredictRequest,
    timeout_seconds: float | None = None,
    max_rows: int | None = None,
    cancel_token: CancelToken | None = None,
) -> PredictResponse:
    """Returns a `PredictResponse` with outputs, and without version.

    Args:
        run: Run function of the model.
        signatures: `SignatureDef`s of the model by name.
        request: A `PredictRequest`.
        timeout_seconds: Time left for the request; None for no limit.
        max_rows: Maximum size of an input's first dimension; None for no limit.
        cancel_token: Keeps a run that waits from being begun.

    Raises:
        ServingError: If the request is too large or does not fit a signature, or
            running failed.
    """
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    if name not in signatures:
        raise failed_precondition(f'Serving signature key "{name}" not found.')
    contract = signatures[name]
    _check_rows(request.inputs, max_rows)
    feeds = _feeds(contract, request.inputs)
    aliases = _outputs(contract, request.output_filter)
    fetches = [contract.outputs[alias].name for alias in aliases]
    values = run(feeds, fetches, timeout_seconds, cancel_token)
    response = predict_pb2.PredictResponse()
    response.model_spec.name = request.model_spec.name
    response.model_spec.signature_name = name
    for alias, value in zip(aliases, values, strict=True):
        response.outputs[alias].CopyFrom(to_proto(value))
    return response


def _check_rows(inputs: Mapping[str, Any], max_rows: int | None) -> None:
    """Looks at shapes alone: a few bytes may claim millions of rows."""
    for alias, proto in sorted(inputs.items()):
        rows = proto.tensor_shape.dim[0].size if proto.tensor_shape.dim else 1
        if max_rows is not None and rows > max_rows:
            raise invalid_argument(
                f"Input {alias} has {rows:,} rows; this server takes at most "
                f"{max_rows:,} in a request (--max_rows)"
            )


def _feeds(contract: SignatureDef, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    _check_number_of_inputs(contract, inputs)
    feeds = {}
    for alias in sorted(contract.inputs):
        feed_name = contract.inputs[alias].name
        if alias in inputs:
            proto = inputs[alias]
        elif alias in contract.defaults:
            proto = contract.defaults[alias]
        else:
            raise invalid_argument(
                f"Signature input alias: {alias}(feed name: {feed_name}) not found in "
                "request and no default value provided. Inputs expected to be in the "
                f"request {{{_join_names(inputs)}}}, or default input alias set: "
                f"{_join_names(contract.defaults)}"
            )
        try:
            feeds[feed_name] = to_array(proto)
        except ValueError as error:
            raise invalid_argument(f"tensor parsing error: {alias}") from error
    used = [alias for alias in inputs if alias in contract.inputs]
    if len(used) != len(inputs):
        raise invalid_argument(
            f"Inputs contains invalid name. Used request inputs: {_join_names(used)}, "
            f"request input: {_join_names(inputs)}"
        )
    return feeds


def _check_number_of_inputs(contract: SignatureDef, inputs: Mapping) -> None:
    given, wanted = set(inputs), set(contract.inputs)
    few = len(given) < len(wanted) and not contract.defaults
    if len(given) > len(wanted) or few:
        raise invalid_argument(
            f"input size does not match signature: {len(given)}!={len(wanted)} "
            f"len({{{_join_names(given)}}}) != len({{{_join_names(wanted)}}}). "
            f"Sent extra: {{{_join_names(given - wanted)}}}. "
            f"Missing but required: {{{_join_names(wanted - given)}}}."
        )


def _outputs(contract: SignatureDef, output_filter: Iterable[str]) -> list[str]:
    chosen: list[str] = []
    for alias in output_filter:
        if alias not in contract.outputs:
            raise invalid_argument(
                f"output tensor alias not found in signature: {alias} Outputs expected "
                f"to be in the set {{{_join_names(contract.outputs)}}}."
            )
        if alias in chosen:
            raise invalid_argument(f"duplicate output tensor alias: {alias}")
        chosen.append(alias)
    return chosen or sorted(contract.outputs)


def _join_names(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
