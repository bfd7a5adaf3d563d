"""Equal answers of the server over REST and over gRPC, in every signature."""

import json
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from benchmarks.serving_load.measuring import started_everything
from t2t_keras.runs.export_settings import signature_names
from t2t_keras.serving import signature
from tests.system.hostile_lines import LINES

# It needs a trained model and a server process.
pytestmark = pytest.mark.slow

SIGNATURES = signature_names("text", sample=False, prefix=False)
ROWS = 32


@pytest.fixture(scope="module")
def server(reverse_run):
    with started_everything(reverse_run.model_dir.export) as started:
        yield started


@pytest.fixture(scope="module")
def pairs(reverse_run):
    """Texts and targets, the former with hostile ones."""
    # JSON has no bytes that are not UTF-8, except in base64.
    hostile = [(line.decode(errors="replace"), "a b") for line in LINES]
    return [*hostile, *reverse_run.held_out]


def make_inputs(name, pairs):
    """Returns the inputs of a signature: arrays [B] or [B, S] by their names."""
    generator = np.random.default_rng(len(name))
    rows = len(pairs)
    texts, targets = (
        np.array([pair[side].encode() for pair in pairs], object) for side in (0, 1)
    )
    if name == signature.TRANSLATE_IDS:
        ids = generator.integers(0, 280, [rows, 7], np.int32)
        return {signature.INPUT_IDS: ids}
    if name in (signature.SCORE_TARGET, signature.ATTENTION):
        return {signature.SOURCE: texts, signature.TARGET: targets}
    if name == signature.TRANSLATE_WITH_OPTIONS:
        return {
            signature.TEXT: texts,
            signature.BEAM_SIZE: generator.integers(1, 5, rows, np.int32),
            signature.ALPHA: generator.random(rows, np.float32),
            signature.MAX_LENGTH: generator.integers(1, 20, rows, np.int32),
        }
    return {signature.TEXT: texts}


def ask_grpc(stub, name, inputs):
    """Returns the outputs as arrays by their names."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "translate"
    request.model_spec.signature_name = name
    for alias, values in inputs.items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(values))
    outputs = stub.Predict(request, timeout=120).outputs
    return {alias: tf.make_ndarray(tensor) for alias, tensor in outputs.items()}


def ask_rest(address, name, inputs, by_rows):
    """Returns the outputs as lists by their names."""
    columns = {
        alias: [
            each.decode() if isinstance(each, bytes) else each.tolist()
            for each in values
        ]
        for alias, values in inputs.items()
    }
    body = {"signature_name": name, "inputs": columns}
    if by_rows:
        rows = zip(*columns.values(), strict=True)
        instances = [dict(zip(columns, row, strict=True)) for row in rows]
        body = {"signature_name": name, "instances": instances}
    request = urllib.request.Request(
        f"http://{address}/v1/models/translate:predict", json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        answer = json.load(response)
    if not by_rows:
        return answer["outputs"]
    rows = answer["predictions"]
    return {alias: [row[alias] for row in rows] for alias in rows[0]}


@pytest.mark.parametrize("name", SIGNATURES)
def test_rest_answers_what_grpc_does(server, pairs, name):
    """With 500 lines and more, in row and in column format by turns."""
    assert len(pairs) > 500
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.address, options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        for start in range(0, len(pairs), ROWS):
            inputs = make_inputs(name, pairs[start : start + ROWS])
            wanted = ask_grpc(stub, name, inputs)
            by_rows = start // ROWS % 2 == 0
            found = ask_rest(server.rest_address, name, inputs, by_rows)
            assert found.keys() == wanted.keys()
            for alias, array in wanted.items():
                assert_same(found[alias], array)


def assert_same(found, wanted):
    """Compares nested lists of JSON with an array."""
    if wanted.dtype == object:
        texts = np.array(found, object)
        assert texts.shape == wanted.shape
        assert texts.ravel().tolist() == [each.decode() for each in wanted.ravel()]
    else:
        values = np.array(found, wanted.dtype)
        assert values.shape == wanted.shape
        # Requests that are joined with others may have sums in another order.
        np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-5)
