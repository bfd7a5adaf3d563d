"""The next epoch planned while this one is trained on."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

_Element = TypeVar("_Element")


def begun(start: Callable[[], Iterator[_Element]]) -> Callable[[], Iterator[_Element]]:
    """Begins an iteration in a thread, and goes no further than its first element.

    The thread is a daemon: a program that ends does not wait for it.

    Args:
        start: Returns what to iterate over. The first element may take long, and may
            be none.

    Returns:
        What waits until then and returns all elements, or raises what was raised.
    """
    result: Future[Iterator[_Element]] = Future()

    def run() -> None:
        try:
            elements = start()
            result.set_result(
                itertools.chain(list(itertools.islice(elements, 1)), elements)
            )
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="planning", daemon=True).start()
    return result.result
