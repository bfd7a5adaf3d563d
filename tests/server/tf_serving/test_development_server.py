"""The development server as a context manager, and refused settings."""

import http.client
import json
import socket

import grpc
import pytest

from t2t_keras.errors import UserError
from t2t_keras.runs.training.workers import free_ports
from t2t_keras.server.tf_serving.development_server import running_server
from t2t_keras.server.tf_serving.settings import ServerSettings
from t2t_keras.server.translation_api.settings import TranslationApiFlags
from tests.server.tf_serving.clients import Client, refusal
from tests.server.tf_serving.warm_up_requests import predict_log, write


def settings_of(base, **changes):
    settings = {"model_base_path": str(base), "model_name": "translate", "port": 0}
    return ServerSettings(**settings | changes)


def test_a_server_answers_only_inside_its_block(logged, base):
    settings = settings_of(base, max_rows=2, enable_batching=True)
    with running_server(settings) as server:
        client = Client(f"localhost:{server.port}")
        assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
        assert server.models.describe() == "translate version 2"
    with client.channel:
        code, _ = refusal(lambda: client.predict(text=[b"a"]))
    assert code == grpc.StatusCode.UNAVAILABLE.name
    assert logged[-1] == "translate version 2 unloaded"


def test_batches_of_a_version_may_be_larger_than_max_rows(base):
    (base / "2" / "batching_params.pbtxt").write_text("max_batch_size { value: 3 }")
    settings = settings_of(
        base,
        max_rows=1,
        enable_batching=True,
        enable_per_model_batching_parameters=True,
    )
    with running_server(settings) as server:
        client = Client(f"localhost:{server.port}")
        assert len(client.predict(text=[b"a"] * 3)["translation"]) == 3
        assert refusal(lambda: client.predict(text=[b"a"] * 4)) == (
            "INVALID_ARGUMENT",
            "Input text has 4 rows; this server takes at most 3 in a request "
            "(--max_rows)",
        )
    client.channel.close()


def test_what_is_wrong_is_said_before_anything_is_loaded(logged, base, tmp_path):
    keys = tmp_path / "ssl.config"
    keys.write_text('server_key: "no key" server_cert: "no certificate"')
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for settings, message in (
            ({"port": port}, f"127.0.0.1:{port} cannot be listened at"),
            ({"ssl_config_file": str(keys)}, f"{keys}: TLS cannot be started with"),
        ):
            settings = {"port": 0, "model_base_path": str(base)} | settings
            with pytest.raises(UserError, match=message):
                with running_server(ServerSettings(**settings)):
                    pass
    assert logged == []


def test_a_file_of_models_replaces_the_base_path_everywhere(base, tmp_path):
    """In the translation API as well, which reads languages from a model's folder."""
    file = tmp_path / "models.config"
    file.write_text(
        f'model_config_list {{ config {{ name: "m" base_path: "{base}" '
        'model_platform: "tensorflow" } }'
    )
    settings = settings_of(
        "/models/other", model_name="other", model_config_file=str(file)
    )
    settings.check_base_path()
    with running_server(settings) as server:
        assert server.models.describe() == "m version 2"
    api = TranslationApiFlags("", {"other": "/models/other"}, {"port": 0})
    with pytest.raises(UserError, match=f"No version in {base} has a model_card.json"):
        with running_server(settings, api):
            pass


def test_no_limit_on_the_time_of_requests_over_rest(base):
    (port,) = free_ports(1)
    settings = settings_of(
        base,
        rest_api_port=port,
        rest_api_timeout_in_ms=0,
        enable_batching=True,
    )
    with running_server(settings):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(2):
            body = '{"instances": ["a"], "signature_name": "picky"}'
            connection.request("POST", "/v1/models/translate:predict", body)
            assert json.load(connection.getresponse()) == {"predictions": ["A"]}
        connection.close()


def test_a_warm_up_of_zero_iterations_runs_and_a_negative_retry_does_not_wait(
    logged, base
):
    """Both as in TensorFlow Serving."""
    write(base / "2", predict_log("picky", text=[b"poison"]))
    settings = settings_of(
        base,
        num_request_iterations_for_warmup=0,
        max_num_load_retries=1,
        load_retry_interval_micros=-1,
    )
    with pytest.raises(UserError, match="poison is not food"):
        with running_server(settings):
            pass
    assert sum("could not be loaded" in line for line in logged) == 2
    assert sum("trying again in 0 s" in line for line in logged) == 1
