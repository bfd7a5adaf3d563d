"""PredictionService under load: own answers, batching, deadlines, new versions."""

import itertools
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from t2t_keras.server.tf_serving.batching import BatchingOptions
from tests.server.tf_serving.clients import refusal, request, serving, wait_until

BATCHING = BatchingOptions(
    max_batch_size=8,
    batch_timeout_seconds=0.005,
    max_enqueued_batches=100,
    num_batch_threads=2,
    allowed_batch_sizes=(1, 2, 4, 8),
)


def test_simultaneous_requests_are_batched(base):
    options = BatchingOptions(max_batch_size=4, batch_timeout_seconds=60.0)
    with serving(base, options) as client, ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda i: client.predict("sums", ids=[[i]]), range(4)))
        assert [each["rows"] for each in outputs] == [[4]] * 4
        assert [each["sum"] for each in outputs] == [[0], [1], [2], [3]]


def test_a_failing_request_does_not_fail_others(base):
    """Neither does a request with another shape, type or size."""
    options = BatchingOptions(max_batch_size=64, batch_timeout_seconds=0.1)
    hostile = [
        request("picky", text=[b"poison"]),
        request("picky", text=[[b"a"], [b"b"]]),
        request("picky", text=b"scalar"),
        request("picky", text=[1, 2]),
        request("picky", text=[b"x"] * 65),
    ]
    with serving(base, options) as client, ThreadPoolExecutor(16) as pool:
        good = [
            pool.submit(client.predict, "picky", text=[f"row {i}"]) for i in range(8)
        ]
        bad = [
            pool.submit(refusal, lambda m=message: client.prediction.Predict(m, 30))
            for message in hostile
        ]
        for index, future in enumerate(good):
            assert future.result()["translation"] == [f"ROW {index}".encode()]
        codes = [future.result()[0] for future in bad]
        assert codes == ["INVALID_ARGUMENT"] * len(hostile)


def test_signatures_that_cannot_be_batched_are_refused(base):
    with serving(base, BATCHING) as client:
        assert refusal(lambda: client.predict("count", text=[b"a"])) == (
            "FAILED_PRECONDITION",
            "Batched output tensor has 0 dimensions",
        )
        code, message = refusal(lambda: client.predict("first", text=[b"a"] * 2))
        assert code == "FAILED_PRECONDITION"
        assert "does not equal the sum" in message
        # Scalar options have no row for each text.
        code, message = refusal(lambda: client.predict("with_options", text=[b"a"]))
        assert code == "INVALID_ARGUMENT"
        assert message.endswith("must have at least one dimension")


@pytest.mark.parametrize("batching", [None, BATCHING], ids=["alone", "batches"])
def test_a_version_is_replaced_without_a_failed_request(base, saved, batching):
    """Clients that send requests all the time see version 2, then only version 3."""
    shutil.rmtree(base / "1")
    with serving(base, batching) as client, ThreadPoolExecutor(8) as pool:
        stop = threading.Event()
        versions_seen = [[] for _ in range(8)]

        def ask_until_stopped(seen):
            while not stop.is_set():
                texts = [str(len(seen))]
                (translation,) = client.predict(text=texts)["translation"]
                version, text = translation.decode().split(":")
                assert text == texts[0]
                seen.append(version)

        futures = [pool.submit(ask_until_stopped, seen) for seen in versions_seen]

        def all_have_seen(version):
            return all(seen[-1:] == [version] for seen in versions_seen)

        try:
            wait_until(lambda: all_have_seen("v2"))
            shutil.copytree(saved / "3", base / "3.tmp")
            (base / "3.tmp").rename(base / "3")
            client.wait_for_states({3: "AVAILABLE", 2: "END"})
            wait_until(lambda: all_have_seen("v3"))
        finally:
            stop.set()
        for future, seen in zip(futures, versions_seen, strict=True):
            future.result()
            assert [version for version, _ in itertools.groupby(seen)] == ["v2", "v3"]


def test_a_request_in_flight_is_finished_by_its_version(base, saved, tmp_path):
    """The request waits for the test, so it does not matter how long loading takes."""
    end = tmp_path / "end"
    with serving(base) as client, ThreadPoolExecutor(1) as pool:
        waiting = client.predict_until(end, pool)
        try:
            shutil.copytree(saved / "3", base / ".3")
            (base / ".3").rename(base / "3")
            client.wait_for_states({3: "AVAILABLE", 2: "UNLOADING"})
            assert not waiting.done()
            assert client.predict(text=[b"a"])["translation"] == [b"v3:a"]
        finally:
            end.touch()
        assert waiting.result()["translation"] == [bytes(end).upper()]
        client.wait_for_states({3: "AVAILABLE", 2: "END"})


@pytest.mark.parametrize("batching", [None, BATCHING], ids=["alone", "batches"])
def test_the_deadline_of_a_client_stops_the_work(base, batching):
    with serving(base, batching) as client:
        start = time.monotonic()
        code, _ = refusal(lambda: client.predict("busy", timeout=0.3, seconds=[60.0]))
        assert code == "DEADLINE_EXCEEDED"
        # The version can be unloaded, because no request uses it any more.
        shutil.rmtree(base / "2")
        client.wait_for_states({2: "END", 1: "AVAILABLE"})
        assert time.monotonic() - start < 50


def test_a_text_of_many_dimensions_is_refused(base):
    """Of 33 to 64 dimensions it ended the server with a segmentation fault."""
    with serving(base) as client:
        message = request(text=[b"a"])
        for _ in range(32):
            message.inputs["text"].tensor_shape.dim.add(size=1)
        assert refusal(lambda: client.prediction.Predict(message, 30)) == (
            "INVALID_ARGUMENT",
            "tensor parsing error: text",
        )
        assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]


def test_a_huge_shape_is_refused(base):
    """A few bytes that claim terabytes are refused, and the server continues."""
    with serving(base) as client:
        message = request(text=[b"a" * 1000])
        message.inputs["text"].tensor_shape.dim[0].size = 2**40
        assert refusal(lambda: client.prediction.Predict(message, 30)) == (
            "INVALID_ARGUMENT",
            "Input text has 1,099,511,627,776 rows; this server takes at most 1,024 "
            "in a request (--max_rows)",
        )
        message.inputs["text"].tensor_shape.dim[0].size = 1
        message.inputs["text"].tensor_shape.dim.add(size=2**40)
        assert refusal(lambda: client.prediction.Predict(message, 30)) == (
            "INVALID_ARGUMENT",
            "tensor parsing error: text",
        )
        assert client.predict(text=[b"a"])["translation"] == [b"v2:a"]
