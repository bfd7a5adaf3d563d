"""Joined requests: rows of several requests in one batch, split again afterwards."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from t2t_keras.server.tf_serving.batching import BatchingOptions, BatchScheduler
from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.joined import JoinedRun
from t2t_keras.server.workers import CancelToken


@pytest.fixture
def make_run():
    """A maker of `JoinedRun`s, whose schedulers are closed after the test."""
    schedulers = []

    def make(run, **options):
        schedulers.append(BatchScheduler(BatchingOptions(**options)))
        return JoinedRun(run, schedulers[-1])

    yield make
    for scheduler in schedulers:
        scheduler.close()


class Doubling:
    """Fake graph that doubles "x:0", counts the rows, and keeps its inputs."""

    def __init__(self):
        self.seen = []

    def __call__(self, feeds, fetches, timeout_seconds):
        x = feeds["x:0"]
        self.seen.append(x)
        rows = np.full(len(x), len(x))
        outputs = {"y:0": x * 2, "rows:0": rows, "all:0": x.sum(), "few:0": x[:1]}
        return [outputs[name] for name in fetches]


def floats(*values):
    return np.array(values, np.float32)


def run_concurrently(calls):
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(60) for future in [pool.submit(call) for call in calls]]


def attempt(call):
    try:
        return call()
    except ServingError as error:
        return error.code.name, error.message


def test_every_request_gets_its_own_rows(make_run):
    """With random sizes, so that an error by one row is detected."""
    run = make_run(Doubling(), max_batch_size=16, batch_timeout_seconds=0.005)
    rng = random.Random()
    requests = [np.random.default_rng().random(rng.randint(0, 7)) for _ in range(200)]
    with ThreadPoolExecutor(24) as pool:
        answers = pool.map(lambda x: run({"x:0": x}, ["y:0"], None), requests)
        for x, (y,) in zip(requests, answers, strict=True):
            np.testing.assert_array_equal(y, x * 2)


def test_a_batch_is_padded_with_real_rows(make_run):
    graph = Doubling()
    run = make_run(graph, max_batch_size=8, allowed_batch_sizes=(4, 8))
    (y,) = run({"x:0": floats(7, 8, 9)}, ["y:0"], None)
    assert y.tolist() == [14, 16, 18]
    (x,) = graph.seen
    assert len(x) == 4
    assert set(x.tolist()) == {7, 8, 9}


def test_a_run_may_have_sizes_and_times_of_its_own():
    scheduler = BatchScheduler(BatchingOptions(64, batch_timeout_seconds=1000.0))
    options = BatchingOptions(2, allowed_batch_sizes=(2,))
    run = JoinedRun(Doubling(), scheduler, options)
    (rows,) = run({"x:0": floats(1)}, ["rows:0"], 60.0)
    assert rows.tolist() == [2]
    code, message = attempt(lambda: run({"x:0": floats(1, 2, 3)}, ["rows:0"], 60.0))
    assert code == "INVALID_ARGUMENT"
    assert message.endswith("is larger than maximum input batch size 2")
    scheduler.close()


@pytest.mark.parametrize(
    ("feeds", "output", "expected"),
    [
        ({"x:0": floats(3)}, "rows:0", [1]),
        ({"x:0": np.array([3.0])}, "y:0", [6]),
        ({"x:0": floats(3), "z:0": floats(1)}, "y:0", [6]),
    ],
    ids=["outputs", "type", "inputs"],
)
def test_requests_of_other_kinds_are_in_other_batches(
    make_run, feeds, output, expected
):
    graph = Doubling()
    run = make_run(graph, max_batch_size=64, batch_timeout_seconds=0.2)
    one, other = run_concurrently(
        [lambda: run({"x:0": floats(3)}, ["y:0"]), lambda: run(feeds, [output])]
    )
    assert ([each.tolist() for each in one], other[0].tolist()) == ([[6]], expected)
    assert [x.tolist() for x in graph.seen] == [[3], [3]]


def test_models_that_share_the_threads_do_not_share_batches():
    """Versions of one model have tensors of the same names."""
    scheduler = BatchScheduler(BatchingOptions(64, batch_timeout_seconds=0.2))
    old, new = Doubling(), Doubling()
    runs = [JoinedRun(graph, scheduler) for graph in (old, new)]
    calls = [lambda run=run: run({"x:0": floats(1)}, ["y:0"], None) for run in runs]
    run_concurrently(calls)
    scheduler.close()
    assert [x.tolist() for x in old.seen] == [x.tolist() for x in new.seen] == [[1]]


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "must have at least one input tensor"),
        (
            {"x:0": floats(1), "z:0": floats(1, 2)},
            "input tensors must have equal 0th-dimension size",
        ),
    ],
)
def test_inputs_that_cannot_be_joined_are_refused(make_run, feeds, message):
    run = make_run(Doubling(), max_batch_size=4)
    refused = "INVALID_ARGUMENT", f"Batching Run() {message}"
    assert attempt(lambda: run(feeds, ["y:0"])) == refused


def test_the_parts_of_a_large_request_are_concatenated(make_run):
    graph = Doubling()
    options = {"max_batch_size": 4, "max_request_size": 100, "split": True}
    run = make_run(graph, **options)
    x = np.arange(11.0)
    y, rows = run({"x:0": x}, ["y:0", "rows:0"], None)
    assert y.tolist() == (2 * x).tolist()
    assert rows.tolist() == [4] * 8 + [3] * 3
    assert sorted(len(each) for each in graph.seen) == [3, 4, 4]


def widen(feeds, fetches, timeout_seconds):
    """Repeats each number as often as the largest number of its batch says."""
    x = feeds["x:0"].astype(int)
    return [np.tile(x[:, None], max(x))]


def test_parts_of_other_widths_are_refused(make_run):
    run = make_run(widen, max_batch_size=2, max_request_size=100, split=True)
    code, message = attempt(lambda: run({"x:0": floats(1, 3, 2)}, ["wide:0"]))
    assert code == "FAILED_PRECONDITION"
    assert "have outputs wide:0 of different shapes: [2, 3], [1, 2]" in message


class Slow(Doubling):
    """Fake graph that waits at a gate before it answers."""

    def __init__(self):
        super().__init__()
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.timeouts = []

    def __call__(self, feeds, fetches, timeout_seconds):
        self.timeouts.append(timeout_seconds)
        self.entered.set()
        self.gate.wait(60)
        return super().__call__(feeds, fetches, timeout_seconds)


def test_a_request_ends_at_its_deadline(make_run):
    graph = Slow()
    run = make_run(graph, max_batch_size=1)
    with ThreadPoolExecutor(1) as pool:
        patient = pool.submit(run, {"x:0": floats(1)}, ["y:0"], None)
        graph.entered.wait(60)
        start = time.monotonic()
        code, _ = attempt(lambda: run({"x:0": floats(2)}, ["y:0"], 0.1))
        assert code == "DEADLINE_EXCEEDED"
        assert time.monotonic() - start < 30
        graph.gate.set()
        assert patient.result(60)[0].tolist() == [2]
    run({"x:0": floats(3)}, ["y:0"], None)
    # The request that gave up is not run.
    assert [x.tolist() for x in graph.seen] == [[1], [3]]


@pytest.mark.parametrize("other", [20, None])
def test_a_batch_has_the_longest_timeout_of_its_requests(make_run, other):
    graph = Slow()
    graph.gate.set()
    run = make_run(graph, max_batch_size=2, batch_timeout_seconds=1000.0)
    run_concurrently(
        [lambda t=t: run({"x:0": floats(1)}, ["y:0"], t) for t in (50, other)]
    )
    (seen,) = graph.timeouts
    assert seen is None if other is None else 40 < seen <= 50


@pytest.mark.parametrize("count", [1, 2])
def test_a_canceled_request_does_not_wait_for_its_batch(make_run, count):
    graph = Slow()
    run = make_run(graph, max_batch_size=2, batch_timeout_seconds=1000.0)
    tokens = [CancelToken(), CancelToken()]
    with ThreadPoolExecutor(2) as pool:
        calls = [
            pool.submit(
                attempt, lambda i=i: run({"x:0": floats(i)}, ["y:0"], 60, tokens[i])
            )
            for i in range(2)
        ]
        assert graph.entered.wait(60)
        for token in tokens[:count]:
            token.cancel()
        for call in calls[:count]:
            assert call.result(60)[0] == "CANCELLED"
        graph.gate.set()
        for index in range(count, 2):
            (y,) = calls[index].result(60)
            assert y.tolist() == [2.0 * index]
    # Noted when it was called: without a caller its answer may come later.
    assert len(graph.timeouts) == 1


def test_a_request_that_was_canceled_in_the_queue_does_not_run(make_run):
    graph = Slow()
    run = make_run(graph, max_batch_size=1, num_batch_threads=1)
    token = CancelToken()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, {"x:0": floats(1)}, ["y:0"])
        assert graph.entered.wait(60)
        second = pool.submit(
            attempt, lambda: run({"x:0": floats(2)}, ["y:0"], 60, token)
        )
        token.cancel()
        assert second.result(60)[0] == "CANCELLED"
        graph.gate.set()
        assert first.result(60)[0].tolist() == [2.0]
        third = run({"x:0": floats(3)}, ["y:0"])
    assert third[0].tolist() == [6.0]
    assert [each.tolist() for each in graph.seen] == [[1.0], [3.0]]
