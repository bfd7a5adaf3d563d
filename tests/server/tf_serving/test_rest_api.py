"""REST API over sockets: paths, bodies, status codes, limits, and clients that leave.

Expected answers are those of api_rest.md and http_rest_api_handler_test.cc of
TensorFlow Serving.
"""

import gzip
import http.client
import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tensorflow_serving.apis import model_management_pb2

from t2t_keras.server.tf_serving.batching import BatchingOptions
from t2t_keras.server.tf_serving.rest_api import RestOptions
from tests.server.tf_serving.clients import request, serving, values, wait_until
from tests.server.tf_serving.test_models import config

LABELS = 'model_version_policy { all {} } version_labels { key: "old%2F" value: 1 }'
MODEL = "/v1/models/translate"
PREDICT = f"{MODEL}:predict"
TEXTS = '{"instances": ["a", "bc"]}'


@pytest.fixture(scope="module")
def client(saved):
    """A server of versions 1, 2 and 3, of which 1 has a label."""
    plain = config(("translate", saved, LABELS.partition("version_labels")[0]))
    options = RestOptions(
        timeout_seconds=2.0,
        max_body_bytes=100_000,
        cors=True,
        metrics_path="/monitoring/prometheus/metrics",
    )
    with serving(saved, config=plain, rest=options) as client:
        wait_until(lambda: len(client.states()) == 3)
        wait_until(lambda: set(client.states().values()) == {"AVAILABLE"})
        labels = config(("translate", saved, LABELS.replace("old%2F", "old/")))
        message = model_management_pb2.ReloadConfigRequest(config=labels)
        client.models.HandleReloadConfigRequest(message, 30)
        yield client


def ask(client, method, path, body=None, headers=None):
    """Returns status code, headers, and content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", client.rest_port, timeout=60)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


def post(client, path, body, **headers):
    status, _, content = ask(client, "POST", path, body, headers)
    return status, json.loads(content)


def get(client, path):
    status, _, content = ask(client, "GET", path)
    return status, json.loads(content)


def test_predict_in_row_and_in_column_format(client):
    status, headers, content = ask(client, "POST", PREDICT, TEXTS)
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert json.loads(content) == {
        "predictions": [
            {"translation": "v3:a", "score": 1.5},
            {"translation": "v3:bc", "score": 3.0},
        ]
    }
    body = '{"signature_name": "with_options", "inputs": {"text": ["a"], '
    assert post(client, PREDICT, body + '"beam_size": 3, "alpha": 0.1}}') == (
        200,
        {"outputs": {"beam": [3.0], "alpha": [0.1]}},
    )


def test_a_version_and_a_label_in_the_path(client):
    translations = [
        post(client, f"{MODEL}{place}:predict", '{"instances": ["a"]}')[1]
        for place in ("/versions/1", "/labels/old%2F", "/versions/2", "")
    ]
    found = [each["predictions"][0]["translation"] for each in translations]
    assert found == ["v1:a", "v1:a", "v2:a", "v3:a"]
    # The path is matched without regard to case, but the method is not.
    assert post(client, PREDICT.replace("v1/models", "V1/MODELS"), TEXTS)[0] == 200


def version_status(number):
    status = {"error_code": "OK", "error_message": ""}
    return {"version": str(number), "state": "AVAILABLE", "status": status}


def test_status(client):
    everything = {"model_version_status": [version_status(n) for n in (3, 2, 1)]}
    assert get(client, MODEL) == (200, everything)
    only = {"model_version_status": [version_status(2)]}
    assert get(client, f"{MODEL}/versions/2") == (200, only)
    # As in TensorFlow Serving, where only "metadata" asks for metadata.
    assert get(client, f"{MODEL}/versions/2/METADATA") == (200, only)


def test_metadata(client):
    status, answer = get(client, f"{MODEL}/versions/2/metadata")
    assert status == 200
    assert answer["model_spec"] == {
        "name": "translate",
        "signature_name": "",
        "version": "2",
    }
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]
    defaults = signatures["with_options"]["defaults"]
    assert sorted(defaults) == ["alpha", "beam_size"]
    assert defaults["beam_size"]["int_val"] == [4]
    assert defaults["alpha"]["float_val"] == [0.6]


MALFORMED = "Malformed request: "
NO_MODEL = "Servable not found for request: "
REFUSALS = (
    ("GET", "/v1/foo", None, 400, MALFORMED + "GET /v1/foo"),
    ("GET", "/v1/models", None, 400, "Missing model name in request."),
    ("GET", PREDICT, None, 400, MALFORMED),
    ("PUT", PREDICT, TEXTS, 400, MALFORMED + "PUT"),
    ("POST", f"{MODEL}:PREDICT", TEXTS, 400, MALFORMED + f"POST {MODEL}:PREDICT"),
    ("POST", f"{PREDICT}?x=1", TEXTS, 400, MALFORMED + f"POST {PREDICT}?x=1"),
    ("GET", f"{MODEL}?x=1", None, 404, "Could not find any versions of model transl"),
    ("GET", "/v1/models/a%0Ab", None, 404, "Could not find any versions of model a\nb"),
    ("POST", f"{MODEL}/metadata", "", 400, MALFORMED),
    ("POST", f"{MODEL}/versions/HELLO:predict", TEXTS, 400, MALFORMED),
    ("POST", f"{MODEL}/versions/1/labels/a:predict", TEXTS, 400, MALFORMED),
    ("POST", f"{MODEL}/versions/{'9' * 5000}:predict", TEXTS, 400, "Failed to convert"),
    # The model and its signature are looked up before the tensors.
    ("POST", "/v1/models/none:predict", "{}", 404, NO_MODEL + "Latest(none)"),
    ("POST", f"{MODEL}/versions/99:predict", "{}", 404, NO_MODEL + "Specific(transla"),
    (
        "POST",
        PREDICT,
        '{"signature_name": "nope"}',
        400,
        'Serving signature name: "nope" not found in signature def',
    ),
    ("GET", "/v1/models/foo/metadata", None, 404, NO_MODEL),
    ("POST", f"{MODEL}/labels/x:predict", TEXTS, 400, "Unrecognized servable version"),
    ("POST", PREDICT, "", 400, "JSON Parse error: Expecting value"),
    (
        "POST",
        PREDICT,
        '{"instances": [1]}',
        400,
        "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: "
        "JSON Value: 1 Type: Number is not of",
    ),
    # Deeper ones ended the process.
    ("POST", PREDICT, f'{{"inputs": {"[" * 33}"a"{"]" * 33}}}', 400, "JSON Value: [[["),
    (
        "POST",
        PREDICT,
        '{"signature_name": "picky", "instances": ["poison"]}',
        400,
        "assertion failed: [poison is not food]",
    ),
    ("POST", f"{MODEL}:classify", "{}", 501, "t2t_keras.serve runs Predict only"),
    ("POST", PREDICT, '{"signature_name": "busy", "instances": [600.0]}', 504, ""),
    (
        "POST",
        PREDICT,
        json.dumps({"instances": ["a"] * 1025}),
        400,
        "Input text has 1,025 rows; this server takes at most 1,024",
    ),
    ("POST", PREDICT, "x" * 100_001, 413, "The body of the request is larger than 100"),
)


@pytest.mark.parametrize(("method", "path", "body", "status", "message"), REFUSALS)
def test_refusals(client, method, path, body, status, message):
    found, headers, content = ask(client, method, path, body)
    assert found == status, content
    assert headers["Content-Type"] == "application/json"
    error = json.loads(content)["error"]
    assert error.startswith(message), error
    # The server goes on.
    assert post(client, PREDICT, TEXTS)[0] == 200


def test_other_paths_are_not_found(client):
    for path in ("/", "/monitoring/prometheus/metrics/", "/v1", "/v2/models"):
        for method in ("GET", "POST"):
            assert ask(client, method, path)[0] == 404, path


def test_cors(client):
    origin = {"Origin": "https://example.com"}
    status, headers, content = ask(client, "OPTIONS", PREDICT, headers=origin)
    assert (status, content) == (200, b"")
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert headers["Access-Control-Allow-Methods"] == "POST, GET"
    assert headers["Access-Control-Allow-Headers"] == "Content-Type"
    status, _, content = ask(client, "OPTIONS", PREDICT)
    assert status == 400
    assert json.loads(content)["error"] == "Origin header is missing in CORS preflight"


def test_cors_is_off_by_default(base):
    with serving(base) as client:
        _, headers, _ = ask(client, "POST", PREDICT, TEXTS)
        assert "Access-Control-Allow-Origin" not in headers
        assert ask(client, "GET", "/monitoring/prometheus/metrics")[0] == 404


def test_gzip_in_both_directions(client):
    body = gzip.compress(TEXTS.encode())
    headers = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
    status, _, content = ask(client, "POST", PREDICT, body, headers)
    assert status == 200 and json.loads(content)["predictions"][1]["score"] == 3.0
    many = json.dumps({"instances": ["a"] * 500})
    _, headers, content = ask(
        client, "POST", PREDICT, many, headers | {"Content-Encoding": "identity"}
    )
    assert headers["Content-Encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(content))["predictions"]) == 500


def test_a_client_that_leaves_stops_its_request(base):
    metrics = RestOptions(metrics_path="/metrics")
    with serving(base, max_running=1, rest=metrics) as client:
        body = '{"signature_name": "busy", "instances": [3600.0]}'
        connection = http.client.HTTPConnection("127.0.0.1", client.rest_port)
        connection.request("POST", PREDICT, body)
        wait_until(lambda: post(client, PREDICT, TEXTS)[0] == 429)
        connection.close()
        wait_until(lambda: post(client, PREDICT, TEXTS)[0] == 200)
        page = ask(client, "GET", "/metrics")[2].decode()
        statuses = set(re.findall(r'request_count\{.*status="(\w+)"\}', page))
        assert statuses == {"CANCELLED", "RESOURCE_EXHAUSTED", "OK"}


def test_a_server_that_drains_refuses(base, tmp_path):
    end = tmp_path / "end"
    with ThreadPoolExecutor(2) as pool, serving(base) as client:
        waiting = client.predict_until(end, pool)
        stopped = pool.submit(client.stop, 60)
        wait_until(lambda: post(client, PREDICT, TEXTS)[0] == 503)
        # Who asks for the status sends no more requests.
        (status,) = get(client, MODEL)[1]["model_version_status"]
        assert status["state"] == "UNLOADING"
        end.touch()
        waiting.result()
        stopped.result(60)
        with pytest.raises(OSError):
            get(client, MODEL)


def test_every_signature_answers_as_over_grpc(client):
    """With 500 texts, of which many have quotes, controls, and other scripts."""
    rng = np.random.default_rng(7)
    letters = list('aß"\\/\n\t\u0000\u001f\u2028😀漢é<&')
    texts = ["".join(rng.choice(letters, rng.integers(0, 12))) for _ in range(500)]
    ids = rng.integers(-9, 9, [500, 3]).tolist()
    cases = {
        "": {"text": texts},
        "picky": {"text": texts},
        "sums": {"ids": ids},
        "first": {"text": texts},
        "count": {"text": texts},
        "busy": {"seconds": [0.0] * 500},
        "with_options": {"text": texts, "beam_size": 2, "alpha": 0.25},
    }
    for name, inputs in cases.items():
        tensors = {
            key: np.array(value, np.int32 if key in ("ids", "beam_size") else None)
            if key != "text"
            else value
            for key, value in inputs.items()
        }
        if "seconds" in tensors:
            tensors["seconds"] = tensors["seconds"].astype(np.float32)
        if "alpha" in tensors:
            tensors["alpha"] = tensors["alpha"].astype(np.float32)
        outputs = values(client.prediction.Predict(request(name, **tensors), 60))
        outputs = {
            key: [each.decode() if isinstance(each, bytes) else each for each in value]
            if isinstance(value, list)
            else value
            for key, value in outputs.items()
        }
        expected = outputs if len(outputs) > 1 else next(iter(outputs.values()))
        body = json.dumps({"signature_name": name, "inputs": inputs})
        assert post(client, PREDICT, body) == (200, {"outputs": expected}), name


def test_metrics_have_the_names_of_tensorflow_serving(client):
    def count(status):
        _, headers, content = ask(client, "GET", "/monitoring/prometheus/metrics")
        assert headers["Content-Type"].startswith("text/plain")
        name = ":tensorflow:serving:request_count"
        name += f'{{model_name="translate",status="{status}"}} '
        lines = content.decode().splitlines()
        assert "# TYPE :tensorflow:serving:request_count counter" in lines
        latency = ':tensorflow:serving:request_latency_count{API="predict",entrypoint='
        assert any(line.startswith(latency) for line in lines)
        return sum(float(x.removeprefix(name)) for x in lines if x.startswith(name))

    post(client, PREDICT, TEXTS)
    ok, bad = count("OK"), count("INVALID_ARGUMENT")
    post(client, PREDICT, TEXTS)
    client.predict(text=[b"a"])
    post(client, PREDICT, "")
    assert count("OK") == ok + 2
    assert count("INVALID_ARGUMENT") == bad + 1
    # Names that clients invent are not kept.
    post(client, "/v1/models/invented:predict", TEXTS)
    page = ask(client, "GET", "/monitoring/prometheus/metrics")[2]
    assert b"invented" not in page


def test_metrics_of_load_versions_and_the_process(base):
    rest = RestOptions(metrics_path="/metrics")
    batching = BatchingOptions(max_batch_size=1, num_batch_threads=1)

    def values(client):
        page = ask(client, "GET", "/metrics")[2].decode()
        found = re.findall(r"^((?:t2t_keras|process)_\S+) (\S+)$", page, re.M)
        return {name: float(value) for name, value in found}

    in_flight = 't2t_keras_requests_in_flight{model_name="translate"}'
    queue = "t2t_keras_batching_queue_length"
    with ThreadPoolExecutor(3) as pool, serving(base, batching, rest=rest) as client:
        client.predict(text=[b"a"])
        found = values(client)
        assert (found[in_flight], found[queue]) == (0, 0)
        version = 't2t_keras_served_version{model_name="translate",version="2"}'
        assert found[version] == 1
        assert found["process_resident_memory_bytes"] > 1e8
        assert found["process_open_fds"] > 3
        busy = '{"signature_name": "busy", "instances": [1.0]}'
        calls = [pool.submit(post, client, PREDICT, busy) for _ in range(3)]
        # One of them runs.
        wait_until(lambda: values(client).get(queue) == 2)
        assert values(client)[in_flight] == 3
        assert [call.result()[0] for call in calls] == [200] * 3
        found = values(client)
        assert (found[in_flight], found[queue]) == (0, 0)


def test_requests_are_logged(base, caplog):
    caplog.set_level(logging.INFO, "t2t_keras")
    with serving(base, rest=RestOptions(access_log=True)) as client:
        post(client, PREDICT, TEXTS)
        get(client, "/v1/models/a%0Ab")
        wait_until(lambda: len(requests_in(caplog)) == 2)
    first, second = requests_in(caplog)
    assert re.fullmatch(rf"REST 127\.0\.0\.1 POST {PREDICT} 200 \d+\.\d ms", first)
    assert re.fullmatch(r"REST \S+ GET /v1/models/a%0Ab 404 \d+\.\d ms", second)


def requests_in(caplog):
    return [each.getMessage() for each in caplog.records if "REST" in each.getMessage()]
