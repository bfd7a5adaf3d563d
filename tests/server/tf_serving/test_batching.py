"""Batch scheduler: batch timeout, order of batches, full queues, large requests."""

import threading
import time

import pytest

from t2t_keras.server.tf_serving.batching import (
    BatchingOptions,
    BatchScheduler,
    QueuedRequest,
)
from t2t_keras.server.tf_serving.errors import ServingError

FOREVER = 1000.0


class RecordingScheduler:
    """Scheduler whose batches are recorded, and wait while a gate is closed."""

    def __init__(self, **options):
        self.scheduler = BatchScheduler(BatchingOptions(**options))
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def run(self, tasks):
        self.entered.release()
        self.gate.wait()
        self.batches.append([task.payload for task in tasks])
        for task in tasks:
            task.finish(task.payload)

    def submit(self, payload, size=1, kind="soup"):
        def split(sizes):
            parts = enumerate(sizes)
            if len(sizes) == 1:
                return [QueuedRequest(payload, size)]
            return [
                QueuedRequest(f"{payload}{part}:{rows}", rows) for part, rows in parts
            ]

        return self.scheduler.schedule(kind, size, split, self.run)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.scheduler.close()


def wait(*submitted):
    for tasks in submitted:
        for task in tasks:
            task.future.result(30)


def test_a_full_batch_does_not_wait_for_its_time():
    with RecordingScheduler(
        max_batch_size=3, batch_timeout_seconds=FOREVER
    ) as scheduler:
        wait(*[scheduler.submit(name) for name in "abc"])
        assert scheduler.batches == [["a", "b", "c"]]


def test_a_request_that_does_not_fit_starts_another_batch():
    options = {"max_batch_size": 4, "batch_timeout_seconds": FOREVER}
    with RecordingScheduler(**options) as scheduler:
        wait(*[scheduler.submit(name, int(size)) for name, size in ("a3", "b2", "c2")])
        assert scheduler.batches == [["a"], ["b", "c"]]


def test_a_batch_that_is_not_full_waits_for_its_time():
    with RecordingScheduler(max_batch_size=9, batch_timeout_seconds=1.0) as scheduler:
        start = time.monotonic()
        first = scheduler.submit("a")
        time.sleep(0.05)
        wait(first, scheduler.submit("b"))
        # The time counts from the first of them.
        assert 1.0 <= time.monotonic() - start
        assert scheduler.batches == [["a", "b"]]


def test_kinds_take_turns():
    """Many requests of one kind do not delay the others."""
    with RecordingScheduler(max_batch_size=1) as scheduler:
        scheduler.gate.clear()
        submitted = [scheduler.submit("first")]
        scheduler.entered.acquire()
        submitted += [scheduler.submit(f"soup{index}") for index in range(3)]
        submitted += [scheduler.submit("salad", kind="salad")]
        scheduler.gate.set()
        wait(*submitted)
        assert scheduler.batches.index(["salad"]) <= 2


def test_threads_work_at_the_same_time():
    with RecordingScheduler(max_batch_size=1, num_batch_threads=2) as scheduler:
        scheduler.gate.clear()
        submitted = [scheduler.submit("a"), scheduler.submit("b")]
        assert all(scheduler.entered.acquire(timeout=30) for _ in submitted)
        scheduler.gate.set()
        wait(*submitted)


def test_a_full_queue_refuses_and_keeps_what_it_has():
    with RecordingScheduler(max_batch_size=2, max_enqueued_batches=2) as scheduler:
        scheduler.gate.clear()
        submitted = [scheduler.submit("running", 2)]
        scheduler.entered.acquire()
        submitted += [scheduler.submit("a", 2), scheduler.submit("b", 1)]
        with pytest.raises(ServingError) as caught:
            scheduler.submit("c", 2)
        assert caught.value.code.name == "UNAVAILABLE"
        assert caught.value.message == (
            "The batch scheduling queue to which this task was submitted is full; "
            "currently 2 batches enqueued and max_enqueued_batches is 2"
        )
        # One more row fits, and another kind has its own queue.
        submitted += [scheduler.submit("d", 1), scheduler.submit("e", 2, kind="salad")]
        scheduler.gate.set()
        wait(*submitted)
        names = [name for batch in scheduler.batches for name in batch]
        assert sorted(names) == ["a", "b", "d", "e", "running"]


@pytest.mark.parametrize(("split", "most"), [(False, 4), (True, 8)])
def test_a_request_larger_than_allowed_is_refused(split, most):
    with RecordingScheduler(
        max_batch_size=4, max_request_size=8, split=split
    ) as scheduler:
        wait(scheduler.submit("a", most))
        with pytest.raises(ServingError) as caught:
            scheduler.submit("b", most + 1)
        assert caught.value.code.name == "INVALID_ARGUMENT"
        assert caught.value.message == (
            f"Task size {most + 1} is larger than maximum input batch size {most}"
        )


def test_a_large_request_fills_the_open_batch_and_more():
    options = {"max_batch_size": 4, "max_request_size": 100, "split": True}
    with RecordingScheduler(**options, batch_timeout_seconds=0.1) as scheduler:
        scheduler.gate.clear()
        submitted = [scheduler.submit("first", 4)]
        scheduler.entered.acquire()
        submitted += [scheduler.submit("small", 3), scheduler.submit("large", 10)]
        scheduler.gate.set()
        wait(*submitted)
        assert scheduler.batches == [
            ["first"],
            ["small", "large0:1"],
            ["large1:4"],
            ["large2:4"],
            ["large3:1"],
        ]


def test_closing_runs_waiting_requests_and_refuses_new_ones():
    scheduler = RecordingScheduler(max_batch_size=9, batch_timeout_seconds=FOREVER)
    submitted = scheduler.submit("a")
    scheduler.scheduler.close()
    wait(submitted)
    with pytest.raises(ServingError) as caught:
        scheduler.submit("b")
    assert caught.value.code.name == "UNAVAILABLE"


def test_the_next_allowed_size():
    options = BatchingOptions(allowed_batch_sizes=(1, 4, 16))
    for size, padded in [(0, 1), (1, 1), (2, 4), (4, 4), (5, 16), (17, 17)]:
        assert options.padded_size(size) == padded, size
