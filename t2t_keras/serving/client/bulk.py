"""Any number of texts through calls that take a few: sorted, at once, in order."""

import collections
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from t2t_keras.files.lines import chunks

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_batches(
    call: Callable[[list[_Item]], Sequence[_Result]],
    items: Iterable[_Item],
    *,
    batch_size: int,
    concurrency: int = 1,
    items_at_once: int = 1024,
    size: Callable[[_Item], int],
) -> Generator[_Result, None, None]:
    """Yields the result of each item, in the order of the items.

    Read ahead, sorted by size so that a batch does not wait for one long text, and
    asked for in several calls at a time. Items are read as results are taken; what
    is held is bounded by `items_at_once` and by twice `concurrency` batches.

    Args:
        call: Some items to as many results; called from several threads.
        items: Any number of them.
        batch_size: Most items in a call.
        concurrency: Calls at a time; with 1, nothing is read before the results of
            what was read are out.
        items_at_once: How many are read and sorted together.
        size: How long an item is.

    Raises:
        Exception: What `call` or `items` raised, after the results before it. No
            call is begun after that.
    """

    def planned() -> Iterator[tuple[int, list[int], list[_Item]]]:
        for chunk in chunks(items, items_at_once):
            longest_first = sorted(range(len(chunk)), key=lambda i: -size(chunk[i]))
            for indices in chunks(longest_first, batch_size):
                yield len(chunk), indices, [chunk[i] for i in indices]

    found: dict[int, _Result] = {}
    for (length, indices, _), results in _concurrently(
        lambda plan: call(plan[2]), planned(), concurrency
    ):
        found.update(zip(indices, results, strict=True))
        if len(found) == length:
            yield from (found[index] for index in range(length))
            found = {}


def _concurrently(
    call: Callable[[_Item], _Result], items: Iterable[_Item], concurrency: int
) -> Iterator[tuple[_Item, _Result]]:
    """Yields items and their results in order, with calls in as many threads."""
    pending: collections.deque[tuple[_Item, Future[_Result]]] = collections.deque()
    executor = ThreadPoolExecutor(concurrency, "call")
    try:
        for item in items:
            pending.append((item, executor.submit(call, item)))
            # A slow call holds its successors back. As many again may run past it.
            if len(pending) > 2 * (concurrency - 1):
                first, future = pending.popleft()
                yield first, future.result()
        for first, future in pending:
            yield first, future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
