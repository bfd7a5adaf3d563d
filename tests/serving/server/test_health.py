"""gRPC health checking: Check and Watch, with the library's stub and as raw bytes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from t2t_keras.serving.server.health import MAX_WATCHES
from tests.serving.server.clients import refusal, serving, wait_until

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


def test_streams_report_not_serving_while_the_server_drains(base, tmp_path):
    with ThreadPoolExecutor(1) as pool, serving(base, health=True) as client:
        streams = [watch(client, service) for service in KNOWN]
        assert [next(stream).status for stream in streams] == [SERVING] * 3
        end = tmp_path / "end"
        waiting = client.predict_until(end, pool)
        stop = threading.Thread(target=client.stop, args=(60,))
        stop.start()
        assert [next(stream).status for stream in streams] == [NOT_SERVING] * 3
        # New requests are refused; the one in flight is not.
        wait_until(lambda: refusal(lambda: check(client))[0] == "UNAVAILABLE")
        assert not waiting.done() and stop.is_alive()
        end.touch()
        assert waiting.result()["translation"] == [bytes(end).upper()]
        stop.join(60)
        assert not stop.is_alive()
        for stream in streams:
            with pytest.raises(grpc.RpcError):
                next(stream)


def test_many_streams_take_no_thread_from_predict(base):
    with serving(base, health=True, max_running=1) as client:
        streams = [watch(client) for _ in range(MAX_WATCHES)]
        assert {next(stream).status for stream in streams} == {SERVING}
        for _ in range(20):
            code, message = refusal(lambda: next(watch(client)))
            assert code == "RESOURCE_EXHAUSTED", message
            assert f"has {MAX_WATCHES} health streams" in message
        assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
        assert check(client) == SERVING
        # A stream that ends makes room for another.
        streams.pop().cancel()

        def stream_is_accepted():
            streams.append(watch(client))
            try:
                return next(streams[-1]).status == SERVING
            except grpc.RpcError:
                return False

        wait_until(stream_is_accepted)
        for stream in streams:
            stream.cancel()


def test_short_streams_do_not_block_the_server(base):
    """The library without a thread for each stream blocks here forever."""

    def open_and_cancel(_):
        with grpc.insecure_channel(address) as channel:
            stub = HealthStub(channel)
            for _ in range(100):
                stream = stub.Watch(HealthCheckRequest(), timeout=60)
                assert next(stream).status == SERVING
                stream.cancel()

    with serving(base, health=True) as client, ThreadPoolExecutor(4) as pool:
        address = client.address
        list(pool.map(open_and_cancel, range(4)))
        assert check(client) == SERVING
