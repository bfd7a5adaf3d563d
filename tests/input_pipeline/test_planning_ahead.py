"""Planning ahead: an iteration started in a thread yields the same elements."""

import itertools
import threading

import pytest

from t2t_keras.input_pipeline.batches.pipeline import start_in_thread

SECONDS = 30


def test_all_elements_come_in_order() -> None:
    for count in (0, 1, 2, 7):
        assert list(start_in_thread(lambda n=count: iter(range(n)))()) == list(
            range(count)
        )


def test_no_more_than_the_first_is_drawn_before_it_is_asked_for() -> None:
    drawn, first_is_there = [], threading.Event()

    def elements():
        for number in itertools.count():
            drawn.append((number, threading.current_thread().name))
            first_is_there.set()
            yield number

    rest = start_in_thread(elements)
    assert first_is_there.wait(SECONDS)
    iterator = rest()
    assert drawn == [(0, "planning")]
    assert list(itertools.islice(iterator, 3)) == [0, 1, 2]


def test_the_consumer_waits_for_the_thread() -> None:
    may_continue = threading.Event()

    def elements():
        assert may_continue.wait(SECONDS)
        yield 5

    rest = start_in_thread(elements)
    threading.Timer(0.05, may_continue.set).start()
    assert list(rest()) == [5]


def test_an_error_is_raised_in_the_consumer() -> None:
    def elements():
        raise KeyError("no plan")
        yield

    with pytest.raises(KeyError, match="no plan"):
        start_in_thread(elements)()
