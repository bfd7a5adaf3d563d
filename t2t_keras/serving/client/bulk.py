"""Bulk calls: items sorted by size, sent in concurrent batches, returned in order."""

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

    Items are read ahead, sorted by size so that a batch does not wait for one long
    text, and sent in several calls at a time. They are read as results are taken; at
    most `items_at_once` and twice `concurrency` batches are held.

    Args:
        call: Function of a list of items that returns as many results; called from
            several threads.
        items: Any number of items.
        batch_size: Maximum number of items in a call.
        concurrency: Calls at a time; with 1, no item is read before the results of
            those before it are yielded.
        items_at_once: Items that are read and sorted together.
        size: Function that returns the size of an item.

    Raises:
        Exception: If `call` or `items` raises, after the results before it. No call is
            started after that.
    """

    def plan_calls() -> Iterator[tuple[int, list[int], list[_Item]]]:
        for chunk in chunks(items, items_at_once):
            longest_first = sorted(range(len(chunk)), key=lambda i: -size(chunk[i]))
            for indices in chunks(longest_first, batch_size):
                yield len(chunk), indices, [chunk[i] for i in indices]

    results_by_index: dict[int, _Result] = {}
    for (length, indices, _), results in _call_concurrently(
        lambda plan: call(plan[2]), plan_calls(), concurrency
    ):
        results_by_index.update(zip(indices, results, strict=True))
        if len(results_by_index) == length:
            yield from (results_by_index[index] for index in range(length))
            results_by_index = {}


def _call_concurrently(
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
