"""The development server as a context manager, and refused settings."""

import socket

import grpc
import pytest

from t2t_keras.errors import UserError
from t2t_keras.serving.server.development_server import running_server
from t2t_keras.serving.server.settings import ServerSettings
from tests.serving.server.clients import Client, refusal


def test_a_server_answers_only_inside_its_block(base):
    lines = []
    settings = ServerSettings(
        model_base_path=str(base),
        model_name="translate",
        port=0,
        max_rows=2,
        enable_batching=True,
        # Otherwise XLA would be disabled for the rest of this process.
        xla_cpu_compilation_enabled=True,
    )
    with running_server(settings, lines.append) as server:
        client = Client(f"localhost:{server.port}")
        assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
        assert server.models.describe() == "translate version 2"
    with client.channel:
        code, _ = refusal(lambda: client.predict(text=[b"a"]))
    assert code == grpc.StatusCode.UNAVAILABLE.name
    assert lines[-1] == "translate version 2 unloaded"


def test_batches_of_a_version_may_be_larger_than_max_rows(base):
    (base / "2" / "batching_params.pbtxt").write_text("max_batch_size { value: 3 }")
    settings = ServerSettings(
        model_base_path=str(base),
        model_name="translate",
        port=0,
        max_rows=1,
        enable_batching=True,
        enable_per_model_batching_parameters=True,
        # Otherwise XLA would be disabled for the rest of this process.
        xla_cpu_compilation_enabled=True,
    )
    with running_server(settings, print) as server:
        client = Client(f"localhost:{server.port}")
        assert len(client.predict(text=[b"a"] * 3)["translation"]) == 3
        assert refusal(lambda: client.predict(text=[b"a"] * 4)) == (
            "INVALID_ARGUMENT",
            "Input text has 4 rows; this server takes at most 3 in a request "
            "(--max_rows)",
        )
    client.channel.close()


def test_what_is_wrong_is_said_before_anything_is_loaded(base, tmp_path):
    lines = []
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
                with running_server(ServerSettings(**settings), lines.append):
                    pass
    assert lines == []


def test_conflicting_settings_are_refused():
    for settings, message in (
        ({}, "Give --model_base_path"),
        ({"model_base_path": "a", "model_config_file": "b"}, "or else --model_config"),
        (
            {"model_base_path": "a", "batching_parameters_file": "b"},
            "--batching_parameters_file needs --enable_batching",
        ),
    ):
        with pytest.raises(UserError, match=message):
            ServerSettings(**settings)
            pytest.fail(f"{settings} was accepted")
