"""gRPC health checking, with the library's stub and as raw bytes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1.health_pb2 import (
    HealthCheckRequest,
    HealthCheckResponse,
    HealthListRequest,
)
from grpc_health.v1.health_pb2_grpc import HealthStub

from t2t_keras.server.tf_serving import models
from t2t_keras.server.tf_serving.development_server import running_server
from t2t_keras.server.tf_serving.settings import ServerSettings
from tests.server.tf_serving.clients import Client, refusal, serving, wait_until

SERVING, NOT_SERVING, UNKNOWN = (
    HealthCheckResponse.SERVING,
    HealthCheckResponse.NOT_SERVING,
    HealthCheckResponse.SERVICE_UNKNOWN,
)
KNOWN = ("", "PredictionService", "ModelService")


def check(client, service=""):
    message = HealthCheckRequest(service=service)
    return HealthStub(client.channel).Check(message, timeout=30).status


def watch(client, service=""):
    return HealthStub(client.channel).Watch(HealthCheckRequest(service=service))


def test_a_running_server_is_healthy(base):
    with serving(base, health=True) as client:
        for service in KNOWN:
            assert check(client, service) == SERVING, service
            encoded = service.encode()
            message = b"\x0a%c%s" % (len(encoded), encoded)
            call = client.channel.unary_unary("/grpc.health.v1.Health/Check")
            assert call(message, timeout=30) == b"\x08\x01", service


def test_the_list_has_every_service(base, caplog):
    with serving(base, health=True) as client:
        answer = HealthStub(client.channel).List(HealthListRequest(), timeout=30)
        found = {name: each.status for name, each in answer.statuses.items()}
    assert found == dict.fromkeys(KNOWN, SERVING)
    assert not caplog.records


def test_an_unknown_service_is_not_found(base):
    with serving(base, health=True) as client:
        assert refusal(lambda: check(client, "x"))[0] == "NOT_FOUND"
        stream = watch(client, "x")
        assert next(stream).status == UNKNOWN
        stream.cancel()


def test_health_is_unimplemented_by_default(base):
    with serving(base) as client:
        assert refusal(lambda: check(client))[0] == "UNIMPLEMENTED"
        assert refusal(lambda: next(watch(client)))[0] == "UNIMPLEMENTED"


@pytest.mark.slow
def test_a_server_that_drains_is_not_serving(base, tmp_path):
    with ThreadPoolExecutor(1) as pool, serving(base, health=True) as client:
        streams = [watch(client, service) for service in KNOWN]
        assert [next(stream).status for stream in streams] == [SERVING] * 3
        end = tmp_path / "end"
        waiting = client.predict_until(end, pool)
        stop = threading.Thread(target=client.stop, args=(60,))
        stop.start()
        assert [next(stream).status for stream in streams] == [NOT_SERVING] * 3
        for service in KNOWN:
            assert check(client, service) == NOT_SERVING
            assert next(watch(client, service)).status == NOT_SERVING
        assert not waiting.done() and stop.is_alive()
        end.touch()
        assert waiting.result()["translation"] == [bytes(end).upper()]
        stop.join(60)
        assert not stop.is_alive()
        for stream in streams:
            with pytest.raises(grpc.RpcError):
                next(stream)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_whose_watch_ends_is_not_serving(logged, base, tmp_path, monkeypatch):
    """It would never load or unload a version again."""

    def end_thread(*_):
        raise SystemExit

    settings = ServerSettings(
        model_base_path=str(base),
        model_name="translate",
        port=0,
        enable_grpc_healthcheck_service=True,
        file_system_poll_wait_seconds=0.05,
    )
    with running_server(settings) as server:
        client = Client(f"localhost:{server.port}")
        assert check(client) == SERVING
        monkeypatch.setattr(models, "find_versions", end_thread)
        wait_until(lambda: check(client) == NOT_SERVING)
        wait_until(
            lambda: logged[-1].startswith("error: restart the server: it cannot look")
        )
        # What is loaded is still served.
        assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
    client.channel.close()
