"""Rows of many requests in one batch: each comes back to its owner."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from t2t_keras.serving.server.batching import BatchingOptions, BatchScheduler
from t2t_keras.serving.server.errors import ServingError, invalid_argument
from t2t_keras.serving.server.joined import JoinedRun


@pytest.fixture
def joined():
    """Makes a run that joins, and ends its threads."""
    schedulers = []

    def make(run, **options):
        schedulers.append(BatchScheduler(BatchingOptions(**options)))
        return JoinedRun(run, schedulers[-1])

    yield make
    for scheduler in schedulers:
        scheduler.close()


class Doubling:
    """Doubles "x:0", says how many rows there were, and keeps what it saw."""

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


def at_once(calls):
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(60) for future in [pool.submit(call) for call in calls]]


def attempt(call):
    try:
        return call()
    except ServingError as error:
        return error.code.name, error.message


def test_every_row_comes_back_to_its_owner(joined):
    """In random sizes, so that a mistake of one row anywhere shows."""
    run = joined(Doubling(), max_batch_size=16, batch_timeout_seconds=0.005)
    rng = random.Random()
    requests = [np.random.default_rng().random(rng.randint(0, 7)) for _ in range(200)]
    with ThreadPoolExecutor(24) as pool:
        answers = pool.map(lambda x: run({"x:0": x}, ["y:0"], None), requests)
        for x, (y,) in zip(requests, answers, strict=True):
            np.testing.assert_array_equal(y, x * 2)


def test_requests_that_come_together_are_run_together(joined):
    graph = Doubling()
    run = joined(graph, max_batch_size=6, batch_timeout_seconds=1000.0)
    found = at_once(
        [
            lambda: run({"x:0": floats(1, 2)}, ["rows:0", "y:0"], None),
            lambda: run({"x:0": floats(3)}, ["y:0", "rows:0"], None),
            lambda: run({"x:0": floats(4, 5, 6)}, ["rows:0", "y:0"], None),
        ]
    )
    # Outputs are in the order that each asked for.
    assert [value.tolist() for value in found[0]] == [[6, 6], [2, 4]]
    assert [value.tolist() for value in found[1]] == [[6], [6]]
    assert [value.tolist() for value in found[2]] == [[6, 6, 6], [8, 10, 12]]
    assert len(graph.seen) == 1


def test_a_batch_is_padded_with_rows_that_are_real(joined):
    graph = Doubling()
    run = joined(graph, max_batch_size=8, allowed_batch_sizes=(4, 8))
    (y,) = run({"x:0": floats(7, 8, 9)}, ["y:0"], None)
    assert y.tolist() == [14, 16, 18]
    (x,) = graph.seen
    assert len(x) == 4
    assert set(x.tolist()) == {7, 8, 9}


def test_an_empty_request_is_answered_with_nothing(joined):
    graph = Doubling()
    run = joined(graph, max_batch_size=8, allowed_batch_sizes=(4, 8))
    (y,) = run({"x:0": floats()}, ["y:0"], None)
    assert y.shape == (0,)


@pytest.mark.parametrize(
    "odd",
    [
        {"x:0": np.ones([2, 3], np.float32)},
        {"x:0": np.ones([2], np.float64)},
        {"x:0": np.array([b"a", b"b"], object)},
        {"x:0": floats(1), "z:0": floats(1)},
    ],
    ids=["shape", "type", "string", "inputs"],
)
def test_a_request_of_another_kind_is_in_a_batch_of_its_own(joined, odd):
    graph = Doubling()
    run = joined(graph, max_batch_size=64, batch_timeout_seconds=0.2)
    good = [lambda: run({"x:0": floats(1)}, ["y:0"], None)] * 2
    found = at_once([*good, lambda: attempt(lambda: run(odd, ["y:0"], None))])
    assert [value.tolist() for (value,) in found[:2]] == [[2], [2]]
    assert sorted(x.shape[0] for x in graph.seen if x.dtype == np.float32) in (
        [2],
        [1, 2],
        [2, 2],
    )


def test_other_outputs_are_another_kind_too(joined):
    """Or those who ask for one output would pay for another."""
    graph = Doubling()
    run = joined(graph, max_batch_size=64, batch_timeout_seconds=0.1)
    found = at_once(
        [
            lambda: run({"x:0": floats(1)}, ["y:0"], None),
            lambda: run({"x:0": floats(1)}, ["rows:0"], None),
        ]
    )
    assert [value.tolist() for (value,) in found] == [[2], [1]]
    assert len(graph.seen) == 2


def test_models_that_share_the_threads_do_not_share_batches():
    """Versions of one model have tensors of the same names."""
    scheduler = BatchScheduler(BatchingOptions(64, batch_timeout_seconds=0.2))
    old, new = Doubling(), Doubling()
    runs = [JoinedRun(graph, scheduler) for graph in (old, new)]
    calls = [lambda run=run: run({"x:0": floats(1)}, ["y:0"], None) for run in runs]
    at_once(calls)
    scheduler.close()
    assert [x.tolist() for x in old.seen] == [x.tolist() for x in new.seen] == [[1]]


def poisoned(feeds, fetches, timeout_seconds):
    if 13 in feeds["x:0"]:
        raise invalid_argument("thirteen")
    return Doubling()(feeds, fetches, timeout_seconds)


def test_a_request_that_fails_fails_alone(joined):
    run = joined(poisoned, max_batch_size=5, batch_timeout_seconds=1000.0)
    numbers = (1, 13, 3, 4, 5)
    found = at_once(
        [
            lambda x=x: attempt(lambda: run({"x:0": floats(x)}, ["y:0"], None))
            for x in numbers
        ]
    )
    for x, answer in zip(numbers, found, strict=True):
        if x == 13:
            assert answer == ("INVALID_ARGUMENT", "thirteen")
        else:
            assert answer[0].tolist() == [2 * x]


def test_a_fault_of_the_server_is_an_answer_and_not_a_hang(joined):
    def broken(feeds, fetches, timeout_seconds):
        raise ZeroDivisionError("oh")

    run = joined(broken, max_batch_size=2, batch_timeout_seconds=1000.0)
    calls = [lambda: attempt(lambda: run({"x:0": floats(1)}, ["y:0"], None))] * 2
    assert at_once(calls) == [("INTERNAL", "ZeroDivisionError: oh")] * 2


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "Batching Run() must have at least one input tensor"),
        (
            {"x:0": floats(1), "z:0": np.float32(1).reshape([])},
            "Batching Run() input tensors must have at least one dimension",
        ),
        (
            {"x:0": floats(1), "z:0": floats(1, 2)},
            "Batching Run() input tensors must have equal 0th-dimension size",
        ),
    ],
)
def test_inputs_that_cannot_be_joined_are_refused(joined, feeds, message):
    run = joined(Doubling(), max_batch_size=4)
    assert attempt(lambda: run(feeds, ["y:0"], None)) == ("INVALID_ARGUMENT", message)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("all:0", "Batched output tensor has 0 dimensions"),
        ("few:0", "Batched output tensor's 0th dimension does not equal the sum"),
    ],
)
def test_outputs_that_cannot_be_taken_apart_are_refused(joined, output, message):
    run = joined(Doubling(), max_batch_size=4)
    code, told = attempt(lambda: run({"x:0": floats(1, 2)}, [output], None))
    assert code == "FAILED_PRECONDITION"
    assert told.startswith(message)


def test_a_large_request_is_put_together_again(joined):
    graph = Doubling()
    options = {"max_batch_size": 4, "max_request_size": 100, "split": True}
    run = joined(graph, **options)
    x = np.arange(11.0)
    y, rows = run({"x:0": x}, ["y:0", "rows:0"], None)
    assert y.tolist() == (2 * x).tolist()
    assert rows.tolist() == [4] * 8 + [3] * 3
    assert sorted(len(each) for each in graph.seen) == [3, 4, 4]


def widened(feeds, fetches, timeout_seconds):
    """Says each number as often as the largest of its batch."""
    x = feeds["x:0"].astype(int)
    return [np.tile(x[:, None], max(x))]


def test_parts_of_other_widths_are_refused(joined):
    """Where the widths happen to be the same, nothing is wrong."""
    options = {"max_batch_size": 2, "max_request_size": 100, "split": True}
    run = joined(widened, **options)
    (found,) = run({"x:0": floats(1, 3, 3, 2)}, ["wide:0"], None)
    assert found.tolist() == [[1] * 3, [3] * 3, [3] * 3, [2] * 3]
    code, message = attempt(lambda: run({"x:0": floats(1, 3, 2)}, ["wide:0"], None))
    assert code == "FAILED_PRECONDITION"
    assert "have outputs wide:0 of different shapes: [2, 3], [1, 2]" in message


class Slow(Doubling):
    """Waits at a gate before it answers."""

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


def test_nobody_waits_beyond_the_deadline(joined):
    graph = Slow()
    run = joined(graph, max_batch_size=1)
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
    # What nobody waits for any more is not run.
    assert [x.tolist() for x in graph.seen] == [[1], [3]]


@pytest.mark.parametrize(
    ("timeouts", "expected"), [((50, 20), 50), ((50, None), None), ((None, None), None)]
)
def test_a_batch_has_the_time_of_its_most_patient(joined, timeouts, expected):
    graph = Slow()
    graph.gate.set()
    run = joined(graph, max_batch_size=2, batch_timeout_seconds=1000.0)
    at_once([lambda t=t: run({"x:0": floats(1)}, ["y:0"], t) for t in timeouts])
    (seen,) = graph.timeouts
    if expected is None:
        assert seen is None
    else:
        assert expected - 10 < seen <= expected
