"""An iteration started in a thread has the elements that it has without."""

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
    found = rest()
    assert drawn == [(0, "planning")]
    assert list(itertools.islice(found, 3)) == [0, 1, 2]


def test_it_is_waited_for() -> None:
    goes_on = threading.Event()

    def elements():
        assert goes_on.wait(SECONDS)
        yield 5

    rest = start_in_thread(elements)
    threading.Timer(0.05, goes_on.set).start()
    assert list(rest()) == [5]


def test_what_is_raised_is_raised_where_it_is_asked_for() -> None:
    def elements():
        raise KeyError("no plan")
        yield

    with pytest.raises(KeyError, match="no plan"):
        start_in_thread(elements)()
