"""Any number of items through calls that take a few."""

import itertools
import random
import threading
import time

import pytest

from t2t_keras.serving.client.bulk import in_batches


def capitals(texts):
    return [text.upper() for text in texts]


def batched(call, items, **settings):
    settings = {"batch_size": 3, "size": len} | settings
    return in_batches(call, items, **settings)


def test_results_come_in_the_order_of_the_items():
    """Though calls end in any order, and items of a chunk are sorted."""

    def slow(batch):
        time.sleep(random.random() / 500)
        return capitals(batch)

    rows = itertools.product([0, 1, 3, 4, 50], [1, 2, 7], [1, 2, 10, 1000])
    for row in rows:
        count, concurrency, items_at_once = row
        texts = ["x" * random.randrange(9) + str(i) for i in range(count)]
        found = batched(
            slow, iter(texts), concurrency=concurrency, items_at_once=items_at_once
        )
        assert list(found) == capitals(texts), row


def test_batches_are_of_like_size_the_largest_first():
    seen = []

    def note(batch):
        seen.append([len(text) for text in batch])
        return batch

    texts = ["x" * n for n in (5, 1, 9, 2, 7, 3, 8)]
    assert list(batched(note, texts, concurrency=1)) == texts
    assert seen == [[9, 8, 7], [5, 3, 2], [1]]


def test_calls_run_at_once_and_no_more_than_allowed():
    together = threading.Barrier(4)
    running, most = itertools.count(1), []
    lock = threading.Lock()
    at_a_time = 0

    def meet(batch):
        nonlocal at_a_time
        with lock:
            at_a_time += 1
            most.append(at_a_time)
        # Four must be here at once, or this raises.
        together.wait(timeout=60)
        with lock:
            at_a_time -= 1
        return batch

    texts = [str(next(running)) for _ in range(24)]
    assert list(batched(meet, texts, concurrency=4)) == texts
    assert max(most) == 4


@pytest.mark.parametrize(("concurrency", "most"), [(1, 2), (4, 2 * 7)])
def test_items_are_read_as_results_are_taken(concurrency, most):
    read = 0

    def endless():
        nonlocal read
        for read in itertools.count(1):  # noqa: B007 - it is counted
            yield "x"

    found = batched(
        capitals, endless(), batch_size=2, items_at_once=2, concurrency=concurrency
    )
    for taken in range(1, 100):
        assert next(found) == "X"
        # What is being taken, and what runs ahead of it.
        assert read <= taken + most
    found.close()


def test_one_at_a_time_answers_before_it_reads_on():
    answered = []

    def typed():
        for number in range(5):
            assert len(answered) == number
            yield str(number)

    for result in batched(capitals, typed(), concurrency=1, items_at_once=1):
        answered.append(result)
    assert answered == list("01234")


@pytest.mark.parametrize("concurrency", [1, 3])
def test_an_error_comes_after_the_results_before_it_and_ends_the_calls(concurrency):
    called = []

    def fail(batch):
        called.append(batch)
        if "30" in batch:
            raise RuntimeError("on purpose")
        return batch

    found = batched(
        fail, map(str, range(10_000)), concurrency=concurrency, items_at_once=3
    )
    taken = []
    with pytest.raises(RuntimeError, match="on purpose"):
        taken.extend(iter(found.__next__, None))
    assert taken == [] or taken == [str(n) for n in range(30)]
    assert len(called) < 30


def test_an_error_of_the_items_comes_through():
    def damaged():
        yield from "abcdef"
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="the file ends here"):
        list(batched(capitals, damaged(), concurrency=2, items_at_once=3))


def test_a_call_that_loses_a_result_is_noticed():
    with pytest.raises(ValueError, match="shorter"):
        list(batched(lambda batch: batch[1:], "abc"))


def test_threads_end_with_the_results():
    before = set(threading.enumerate())
    found = batched(capitals, itertools.repeat("x"), concurrency=5, items_at_once=3)
    next(found)
    found.close()
    for _ in range(100):
        if set(threading.enumerate()) <= before:
            break
        time.sleep(0.05)
    assert set(threading.enumerate()) <= before
