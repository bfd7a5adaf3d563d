"""Batching of requests: bounded queues, from which a few threads take batches.

One queue for each kind of request; the threads take full batches, or those that have
waited long enough, from the queues in turn. The settings, and the errors where they
are exceeded, are those of TensorFlow Serving.
"""

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

import grpc

from t2t_keras.server.tf_serving.errors import ServingError, invalid_argument
from t2t_keras.server.tf_serving.metrics import Metrics
from t2t_keras.server.workers import CancelToken


@dataclass(frozen=True)
class BatchingOptions:
    """Settings of batching; the defaults are TensorFlow Serving's.

    Attributes:
        max_batch_size: Maximum number of rows of a batch.
        batch_timeout_seconds: Longest that a batch waits to become full.
        max_enqueued_batches: Maximum number of batches of a kind that wait for a
            thread.
        num_batch_threads: Batches that are run at a time.
        allowed_batch_sizes: Sizes that batches are padded to; any if empty.
        split: Whether requests larger than a batch are split.
        max_request_size: Maximum number of rows of a request that may be split.
    """

    max_batch_size: int = 1000
    batch_timeout_seconds: float = 0.0
    max_enqueued_batches: int = 10
    num_batch_threads: int = 1
    allowed_batch_sizes: tuple[int, ...] = ()
    split: bool = False
    max_request_size: int = 1000

    def padded_size(self, size: int) -> int:
        """Returns the smallest allowed size that holds `size` rows."""
        fitting = (each for each in self.allowed_batch_sizes if each >= size)
        return next(fitting, size)

    def check_size(self, size: int) -> None:
        """Raises INVALID_ARGUMENT if a request of so many rows is too large."""
        most = self.max_request_size if self.split else self.max_batch_size
        if size > most:
            raise invalid_argument(
                f"Task size {size} is larger than maximum input batch size {most}"
            )


@dataclass(eq=False)
class QueuedRequest:
    """Rows of one request.

    Attributes:
        payload: Rows to run.
        size: Number of rows.
        deadline: Time after which nobody waits, on the clock of `time.monotonic`.
        cancel_token: Canceled when nobody waits any more.
        future: Future of the result.
    """

    payload: Any
    size: int
    deadline: float | None = None
    cancel_token: CancelToken = field(default_factory=CancelToken)
    future: Future = field(default_factory=Future)

    def finish(self, result: Any = None, error: Exception | None = None) -> None:
        """Sets the result or an error, unless the request gave up before."""
        with contextlib.suppress(InvalidStateError):
            if error is None:
                self.future.set_result(result)
            else:
                self.future.set_exception(error)


Process = Callable[[Sequence[QueuedRequest]], None]


@dataclass(eq=False)
class _Batch:
    opened: float
    tasks: list[QueuedRequest] = field(default_factory=list)
    size: int = 0


@dataclass(eq=False)
class _Queue:
    process: Process
    options: BatchingOptions
    batches: collections.deque[_Batch] = field(default_factory=collections.deque)

    def sizes(self, size: int) -> list[int]:
        """Returns the sizes of a request's tasks, if there is room for them."""
        options, batches = self.options, self.batches
        limit = options.max_batch_size
        options.check_size(size)
        # An empty queue counts as one open batch.
        room = limit - batches[-1].size if batches else limit
        count = max(len(batches), 1)
        if options.split:
            capacity = (options.max_enqueued_batches - count) * limit + room
            if size > capacity:
                raise _queue_full_error(
                    f"; task size is {size} but scheduling capacity is only {capacity} "
                    f"(num_enqueued_batches={count}, max_enqueued_batches="
                    f"{options.max_enqueued_batches}, open_batch_size={limit - room}, "
                    f"max_execution_batch_size={limit})"
                )
        elif size > room and count >= options.max_enqueued_batches:
            raise _queue_full_error(
                f"; currently {count} batches enqueued and max_enqueued_batches is "
                f"{options.max_enqueued_batches}"
            )
        if not options.split or size <= room:
            return [size]
        sizes = [room] if room else []
        while (left := size - sum(sizes)) > 0:
            sizes.append(min(left, limit))
        return sizes

    def add(self, task: QueuedRequest) -> None:
        """Adds a task to the last batch, or to a new one."""
        limit, batches = self.options.max_batch_size, self.batches
        if not batches or batches[-1].size + task.size > limit:
            batches.append(_Batch(time.monotonic()))
        batches[-1].tasks.append(task)
        batches[-1].size += task.size

    def seconds_to_wait(self, now: float) -> float:
        """Returns the time until the first batch is due, 0 if it is now."""
        first = self.batches[0]
        if len(self.batches) > 1 or first.size >= self.options.max_batch_size:
            return 0.0
        return first.opened + self.options.batch_timeout_seconds - now


class BatchScheduler:
    """Scheduler of batches, with queues and threads that all models share.

    Args:
        options: Number of threads, and the sizes and times of requests that come
            without any of their own.
        metrics: Receives the sizes and times of batches.
    """

    def __init__(self, options: BatchingOptions, metrics: Metrics | None = None):
        self.options = options
        self.metrics = metrics or Metrics()
        self._queues: collections.OrderedDict[Hashable, _Queue] = (
            collections.OrderedDict()
        )
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batching-{index}", daemon=True)
            for index in range(options.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def schedule(
        self,
        kind: Hashable,
        size: int,
        split: Callable[[Sequence[int]], Sequence[QueuedRequest]],
        process: Process,
        options: BatchingOptions | None = None,
    ) -> Sequence[QueuedRequest]:
        """Puts a request into the queue of its kind; returns its tasks, usually one.

        Args:
            kind: Only tasks of one kind are run together.
            size: Rows of the request.
            split: From sizes that sum to `size` to a task for each.
            process: Runs tasks and finishes every one of them; may not raise.
            options: Sizes and times of the kind; None for those of the scheduler.

        Raises:
            ServingError: INVALID_ARGUMENT if it is too large, UNAVAILABLE if the
                queue is full or closed.
        """
        with self._changed:
            if self._closed:
                raise ServingError(
                    grpc.StatusCode.UNAVAILABLE, "The server is shutting down."
                )
            queue = self._queues.get(kind) or _Queue(process, options or self.options)
            tasks = split(queue.sizes(size))
            for task in tasks:
                queue.add(task)
            self._queues.setdefault(kind, queue)
            self.metrics.queue_length.inc(len(tasks))
            self._changed.notify()
        return tasks

    def close(self) -> None:
        """Runs the waiting batches and ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            next_batch = self._take()
            if next_batch is None:
                return
            batch, process = next_batch
            process(batch.tasks)

    def _take(self) -> tuple[_Batch, Process] | None:
        """Waits for the next batch to run; returns `None` after the last one."""
        with self._changed:
            while True:
                now = time.monotonic()
                soonest = None
                for kind, queue in self._queues.items():
                    wait = 0.0 if self._closed else queue.seconds_to_wait(now)
                    if wait <= 0:
                        return self._pop(kind)
                    soonest = wait if soonest is None else min(soonest, wait)
                if self._closed:
                    return None
                self._changed.wait(soonest)

    def _pop(self, kind: Hashable) -> tuple[_Batch, Process]:
        queue = self._queues.pop(kind)
        batch = queue.batches.popleft()
        waited = time.monotonic() - batch.opened
        self.metrics.queuing_latency.labels("").observe(waited * 1e6)
        self.metrics.queue_length.dec(len(batch.tasks))
        if queue.batches:
            self._queues[kind] = queue  # behind the others, which come first now
            self._changed.notify()
        return batch, queue.process


def _queue_full_error(details: str) -> ServingError:
    return ServingError(
        grpc.StatusCode.UNAVAILABLE,
        "The batch scheduling queue to which this task was submitted is full" + details,
    )
