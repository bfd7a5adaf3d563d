"""When batches are taken, in which order, and when a queue is full."""

import threading
import time

import pytest

from t2t_keras.serving.server.batching import BatchingOptions, BatchScheduler, Task
from t2t_keras.serving.server.errors import ServingError

FOREVER = 1000.0


class Kitchen:
    """Takes batches from a scheduler, and can be made to wait."""

    def __init__(self, **options):
        self.scheduler = BatchScheduler(BatchingOptions(**options))
        self.cooked: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def cook(self, tasks):
        self.entered.release()
        self.gate.wait()
        self.cooked.append([task.payload for task in tasks])
        for task in tasks:
            task.finish(task.payload)

    def order(self, payload, size=1, kind="soup"):
        def split(sizes):
            parts = enumerate(sizes)
            if len(sizes) == 1:
                return [Task(payload, size)]
            return [Task(f"{payload}{part}:{rows}", rows) for part, rows in parts]

        return self.scheduler.schedule(kind, size, split, self.cook)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.scheduler.close()


def wait(*orders):
    for tasks in orders:
        for task in tasks:
            task.future.result(30)


def test_a_full_batch_does_not_wait_for_its_time():
    with Kitchen(max_batch_size=3, batch_timeout_seconds=FOREVER) as kitchen:
        wait(*[kitchen.order(name) for name in "abc"])
        assert kitchen.cooked == [["a", "b", "c"]]


def test_what_does_not_fit_begins_another_batch():
    with Kitchen(max_batch_size=4, batch_timeout_seconds=FOREVER) as kitchen:
        orders = [kitchen.order("a", 3), kitchen.order("b", 2), kitchen.order("c", 2)]
        wait(*orders)
        assert kitchen.cooked == [["a"], ["b", "c"]]


def test_a_batch_that_is_not_full_waits_for_its_time():
    with Kitchen(max_batch_size=9, batch_timeout_seconds=1.0) as kitchen:
        start = time.monotonic()
        first = kitchen.order("a")
        time.sleep(0.05)
        wait(first, kitchen.order("b"))
        # The time counts from the first of them.
        assert 1.0 <= time.monotonic() - start
        assert kitchen.cooked == [["a", "b"]]


def test_only_one_kind_is_in_a_batch():
    with Kitchen(max_batch_size=2, batch_timeout_seconds=1.0) as kitchen:
        wait(
            kitchen.order("a", kind="soup"),
            kitchen.order("b", kind="salad"),
            kitchen.order("c", kind="soup"),
        )
        assert sorted(kitchen.cooked) == [["a", "c"], ["b"]]


def test_kinds_take_turns():
    """A kind of which much is asked does not keep the others waiting."""
    with Kitchen(max_batch_size=1) as kitchen:
        kitchen.gate.clear()
        orders = [kitchen.order("first")]
        kitchen.entered.acquire()
        orders += [kitchen.order(f"soup{index}") for index in range(3)]
        orders += [kitchen.order("salad", kind="salad")]
        kitchen.gate.set()
        wait(*orders)
        assert kitchen.cooked.index(["salad"]) <= 2


def test_threads_work_at_the_same_time():
    with Kitchen(max_batch_size=1, num_batch_threads=2) as kitchen:
        kitchen.gate.clear()
        orders = [kitchen.order("a"), kitchen.order("b")]
        assert kitchen.entered.acquire(timeout=30)
        assert kitchen.entered.acquire(timeout=30)
        kitchen.gate.set()
        wait(*orders)


def test_a_full_queue_refuses_and_keeps_what_it_has():
    with Kitchen(max_batch_size=2, max_enqueued_batches=2) as kitchen:
        kitchen.gate.clear()
        orders = [kitchen.order("running", 2)]
        kitchen.entered.acquire()
        orders += [kitchen.order("a", 2), kitchen.order("b", 1)]
        with pytest.raises(ServingError) as caught:
            kitchen.order("c", 2)
        assert caught.value.code.name == "UNAVAILABLE"
        assert caught.value.message == (
            "The batch scheduling queue to which this task was submitted is full; "
            "currently 2 batches enqueued and max_enqueued_batches is 2"
        )
        # There is room for one row yet, and another kind has its own queue.
        orders += [kitchen.order("d", 1), kitchen.order("e", 2, kind="salad")]
        kitchen.gate.set()
        wait(*orders)
        cooked = [name for batch in kitchen.cooked for name in batch]
        assert sorted(cooked) == ["a", "b", "d", "e", "running"]


@pytest.mark.parametrize(("split", "most"), [(False, 4), (True, 8)])
def test_a_request_larger_than_allowed_is_refused(split, most):
    with Kitchen(max_batch_size=4, max_request_size=8, split=split) as kitchen:
        wait(kitchen.order("a", most))
        with pytest.raises(ServingError) as caught:
            kitchen.order("b", most + 1)
        assert caught.value.code.name == "INVALID_ARGUMENT"
        assert caught.value.message == (
            f"Task size {most + 1} is larger than maximum input batch size {most}"
        )


def test_a_large_request_fills_what_is_open_and_goes_on():
    options = {"max_batch_size": 4, "max_request_size": 100, "split": True}
    with Kitchen(**options, batch_timeout_seconds=0.1) as kitchen:
        kitchen.gate.clear()
        orders = [kitchen.order("first", 4)]
        kitchen.entered.acquire()
        orders += [kitchen.order("small", 3), kitchen.order("large", 10)]
        kitchen.gate.set()
        wait(*orders)
        assert kitchen.cooked == [
            ["first"],
            ["small", "large0:1"],
            ["large1:4"],
            ["large2:4"],
            ["large3:1"],
        ]


def test_a_large_request_that_does_not_fit_is_refused_whole():
    options = {"max_batch_size": 4, "max_request_size": 100, "split": True}
    with Kitchen(**options, max_enqueued_batches=2) as kitchen:
        kitchen.gate.clear()
        orders = [kitchen.order("first", 4)]
        kitchen.entered.acquire()
        orders += [kitchen.order("a", 3)]
        with pytest.raises(ServingError) as caught:
            kitchen.order("b", 6)
        assert caught.value.code.name == "UNAVAILABLE"
        assert caught.value.message.endswith(
            "task size is 6 but scheduling capacity is only 5 (num_enqueued_batches=1, "
            "max_enqueued_batches=2, open_batch_size=3, max_execution_batch_size=4)"
        )
        orders += [kitchen.order("c", 5)]
        kitchen.gate.set()
        wait(*orders)


def test_closing_runs_what_waits_and_takes_no_more():
    kitchen = Kitchen(max_batch_size=9, batch_timeout_seconds=FOREVER)
    order = kitchen.order("a")
    kitchen.scheduler.close()
    wait(order)
    with pytest.raises(ServingError) as caught:
        kitchen.order("b")
    assert caught.value.code.name == "UNAVAILABLE"


def test_the_next_allowed_size():
    options = BatchingOptions(allowed_batch_sizes=(1, 4, 16))
    for size, padded in [(0, 1), (1, 1), (2, 4), (4, 4), (5, 16), (17, 17)]:
        assert options.padded_size(size) == padded, size


def test_any_size_is_allowed_if_none_is_named():
    assert BatchingOptions().padded_size(7) == 7


def test_a_result_for_who_gave_up_is_lost_without_a_word():
    task = Task("a", 1)
    task.finish("first")
    task.finish(error=ValueError("second"))
    assert task.future.result(0) == "first"
