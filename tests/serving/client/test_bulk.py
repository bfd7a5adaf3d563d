"""Bulk calls: batches, concurrency, order of results, lazy reading, errors."""

import itertools
import random
import threading
import time

import pytest

from t2t_keras.serving.client.bulk import in_batches


def capitals(texts):
    return [text.upper() for text in texts]


def run_batches(call, items, **settings):
    settings = {"batch_size": 3, "size": len} | settings
    return in_batches(call, items, **settings)


def test_results_are_in_the_order_of_the_items():
    """Although calls end in any order, and the items of a chunk are sorted."""

    def slow(batch):
        time.sleep(random.random() / 500)
        return capitals(batch)

    rows = itertools.product([0, 1, 3, 4, 50], [1, 2, 7], [1, 2, 10, 1000])
    for row in rows:
        count, concurrency, items_at_once = row
        texts = ["x" * random.randrange(9) + str(i) for i in range(count)]
        results = run_batches(
            slow, iter(texts), concurrency=concurrency, items_at_once=items_at_once
        )
        assert list(results) == capitals(texts), row


def test_items_are_batched_by_size_the_largest_first():
    seen = []

    def record(batch):
        seen.append([len(text) for text in batch])
        return batch

    texts = ["x" * n for n in (5, 1, 9, 2, 7, 3, 8)]
    assert list(run_batches(record, texts, concurrency=1)) == texts
    assert seen == [[9, 8, 7], [5, 3, 2], [1]]


def test_calls_are_concurrent_up_to_the_limit():
    barrier = threading.Barrier(4)
    numbers, counts = itertools.count(1), []
    lock = threading.Lock()
    concurrent = 0

    def meet(batch):
        nonlocal concurrent
        with lock:
            concurrent += 1
            counts.append(concurrent)
        # Raises unless four calls are here at the same time.
        barrier.wait(timeout=60)
        with lock:
            concurrent -= 1
        return batch

    texts = [str(next(numbers)) for _ in range(24)]
    assert list(run_batches(meet, texts, concurrency=4)) == texts
    assert max(counts) == 4


@pytest.mark.parametrize(("concurrency", "most_ahead"), [(1, 2), (4, 2 * 7)])
def test_items_are_read_lazily(concurrency, most_ahead):
    read = 0

    def endless():
        nonlocal read
        for read in itertools.count(1):  # noqa: B007 - it is counted
            yield "x"

    results = run_batches(
        capitals, endless(), batch_size=2, items_at_once=2, concurrency=concurrency
    )
    for consumed in range(1, 100):
        assert next(results) == "X"
        # Consumed items, and those that are read ahead.
        assert read <= consumed + most_ahead
    results.close()


def test_with_one_item_at_once_each_is_answered_before_the_next_is_read():
    answered = []

    def typed():
        for number in range(5):
            assert len(answered) == number
            yield str(number)

    for result in run_batches(capitals, typed(), concurrency=1, items_at_once=1):
        answered.append(result)
    assert answered == list("01234")


@pytest.mark.parametrize("concurrency", [1, 3])
def test_an_error_comes_after_earlier_results_and_stops_the_calls(concurrency):
    called = []

    def fail(batch):
        called.append(batch)
        if "30" in batch:
            raise RuntimeError("on purpose")
        return batch

    results = run_batches(
        fail, map(str, range(10_000)), concurrency=concurrency, items_at_once=3
    )
    received = []
    with pytest.raises(RuntimeError, match="on purpose"):
        received.extend(iter(results.__next__, None))
    assert received == [] or received == [str(n) for n in range(30)]
    assert len(called) < 30


def test_an_error_of_the_items_is_raised():
    def damaged():
        yield from "abcdef"
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="the file ends here"):
        list(run_batches(capitals, damaged(), concurrency=2, items_at_once=3))


def test_threads_end_with_the_results():
    before = set(threading.enumerate())
    results = run_batches(
        capitals, itertools.repeat("x"), concurrency=5, items_at_once=3
    )
    next(results)
    results.close()
    for _ in range(100):
        if set(threading.enumerate()) <= before:
            break
        time.sleep(0.05)
    assert set(threading.enumerate()) <= before
