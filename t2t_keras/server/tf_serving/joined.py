"""Batched runs of a model: rows of several requests joined, padded and split again.

Requests are joined if they feed and fetch the same tensors with the same types and
shapes, but for the number of rows. A batch that fails is run again request by
request, so that no request fails because of another.

Shapes: each array that is fed or fetched is [B, ...], B rows of a request or batch.
"""

import itertools
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError

import grpc
import numpy as np

from t2t_keras.server.tf_serving.batching import (
    BatchingOptions,
    BatchScheduler,
    QueuedRequest,
)
from t2t_keras.server.tf_serving.errors import (
    ServingError,
    cancelled,
    deadline_exceeded,
    failed_precondition,
    from_exception,
    invalid_argument,
)
from t2t_keras.server.tf_serving.session import RunFn
from t2t_keras.server.workers import CancelToken

Feeds = Mapping[str, np.ndarray]


class JoinedRun:
    """Runs requests in batches; called as a session's `run` is.

    Args:
        run: Run function of the session.
        scheduler: Scheduler of the batches.
        options: Sizes and times of the batches; None for those of the scheduler.
    """

    def __init__(
        self,
        run: RunFn,
        scheduler: BatchScheduler,
        options: BatchingOptions | None = None,
    ):
        self._run = run
        self._scheduler = scheduler
        self._options = options or scheduler.options

    def __call__(
        self,
        feeds: Feeds,
        fetches: Sequence[str],
        timeout_seconds: float | None = None,
        cancel_token: CancelToken | None = None,
    ) -> list[np.ndarray]:
        """Waits for a batch to run, and returns this request's rows, [B, ...] each.

        Args:
            feeds: Tensor names, and [B, ...] each, with one B.
            fetches: Tensor names.
            timeout_seconds: Maximum time to wait; None for no limit.
            cancel_token: Ends the waiting when it is canceled. A request that is not
                in a batch yet does not run; a batch is finished.

        Raises:
            ServingError: If the request cannot be in a batch, the queue is full, the
                time is over, running failed, or the request was split and its parts
                have outputs of different shapes.
        """
        deadline = _deadline(timeout_seconds)
        cancel_token = cancel_token or CancelToken()
        size = _count_rows(feeds)
        names = tuple(sorted(set(fetches)))

        def split(sizes: Sequence[int]) -> list[QueuedRequest]:
            starts = itertools.accumulate(sizes, initial=0)
            return [
                QueuedRequest(
                    _slice_rows(feeds, slice(start, start + rows)),
                    rows,
                    deadline,
                    cancel_token,
                )
                for start, rows in zip(starts, sizes, strict=False)
            ]

        tasks = self._scheduler.schedule(
            kind=(self, names, _layout(feeds)),
            size=size,
            split=split,
            process=lambda tasks: self._process(tasks, names),
            options=self._options,
        )

        def give_up() -> None:
            for task in tasks:
                task.finish(error=cancelled())

        with cancel_token.calling(give_up):
            parts = [_result(task) for task in tasks]
        return [
            _concatenate_parts([part[name] for part in parts], name) for name in fetches
        ]

    def run_directly(
        self,
        feeds: Feeds,
        fetches: Sequence[str],
        timeout_seconds: float | None = None,
        cancel_token: CancelToken | None = None,
    ) -> list[np.ndarray]:
        """Runs a request in a batch of its own, in this thread, padded as any batch.

        Arguments and results are those of a call.
        """
        size = _count_rows(feeds)
        self._options.check_size(size)
        deadline = _deadline(timeout_seconds)
        task = QueuedRequest(feeds, size, deadline, cancel_token or CancelToken())
        names = tuple(sorted(set(fetches)))
        outputs = self._run_joined([task], names)
        return [outputs[name][:size] for name in fetches]

    def _process(self, tasks: Sequence[QueuedRequest], names: Sequence[str]) -> None:
        """Finishes every task, with an error if need be."""
        try:
            waiting = [task for task in tasks if not _is_given_up(task)]
            self._run_and_finish(waiting, names)
        except Exception as error:
            for task in tasks:
                task.finish(error=error)

    def _run_and_finish(
        self, tasks: Sequence[QueuedRequest], names: Sequence[str]
    ) -> None:
        if not tasks:
            return
        try:
            outputs = self._run_joined(tasks, names)
        except Exception as error:
            status = from_exception(error)
            if len(tasks) == 1 or status.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                for task in tasks:
                    task.finish(error=status)
                return
            for task in tasks:
                if not _is_given_up(task):
                    self._run_and_finish([task], names)
            return
        start = 0
        for task in tasks:
            rows = slice(start, start + task.size)
            # A copy: a view would keep the whole batch alive in each answer.
            task.finish({name: outputs[name][rows].copy() for name in names})
            start += task.size

    def _run_joined(
        self, tasks: Sequence[QueuedRequest], names: Sequence[str]
    ) -> dict[str, np.ndarray]:
        size = sum(task.size for task in tasks)
        padding = self._options.padded_size(size) - size
        # A real row, as no made-up one is sure to be valid.
        donor = next((task for task in reversed(tasks) if task.size), None)
        parts = [task.payload for task in tasks]
        if padding and donor is not None:
            parts += [_slice_rows(donor.payload, slice(0, 1))] * padding
            size += padding
        metrics = self._scheduler.metrics
        metrics.processed_batch_size.observe(size)
        metrics.padding_size.labels(str(size)).observe(padding)
        feeds = {
            name: np.concatenate([part[name] for part in parts])
            if len(parts) > 1
            else parts[0][name]
            for name in parts[0]
        }
        deadlines = [task.deadline for task in tasks]
        left = None
        if None not in deadlines:
            left = max(each for each in deadlines if each is not None)
            left -= time.monotonic()
        outputs = self._run(feeds, names, left)
        for output in outputs:
            if output.ndim == 0:
                raise failed_precondition("Batched output tensor has 0 dimensions")
            if output.shape[0] != size:
                raise failed_precondition(
                    "Batched output tensor's 0th dimension does not equal the sum of "
                    "the 0th dimension sizes of the input tensors"
                )
        return dict(zip(names, outputs, strict=True))


def _deadline(timeout_seconds: float | None) -> float | None:
    """Returns the end of a time from now, on the clock of `time.monotonic`."""
    return None if timeout_seconds is None else time.monotonic() + timeout_seconds


def _count_rows(feeds: Feeds) -> int:
    if not feeds:
        raise invalid_argument("Batching Run() must have at least one input tensor")
    if any(value.ndim == 0 for value in feeds.values()):
        raise invalid_argument(
            "Batching Run() input tensors must have at least one dimension"
        )
    sizes = {value.shape[0] for value in feeds.values()}
    if len(sizes) > 1:
        raise invalid_argument(
            "Batching Run() input tensors must have equal 0th-dimension size"
        )
    return sizes.pop()


def _layout(feeds: Feeds) -> frozenset:
    """Returns names, types and row shapes, which all requests of a batch share."""
    return frozenset(
        (name, value.dtype.name, value.shape[1:]) for name, value in feeds.items()
    )


def _slice_rows(feeds: Feeds, rows: slice) -> dict[str, np.ndarray]:
    return {name: value[rows] for name, value in feeds.items()}


def _concatenate_parts(parts: Sequence[np.ndarray], name: str) -> np.ndarray:
    """Returns the rows of all parts of a request.

    Where the parts differ in width, TensorFlow Serving aborts, or answers with
    uninitialized memory: its Concat trusts the shape of the first part.
    """
    if len(parts) == 1:
        return parts[0]
    if len({part.shape[1:] for part in parts}) > 1:
        shapes = ", ".join(str(list(part.shape)) for part in parts)
        raise failed_precondition(
            "The parts of a request that was split (enable_large_batch_splitting) have "
            f"outputs {name} of different shapes: {shapes}. Send no more rows than fit "
            "a batch"
        )
    return np.concatenate(parts)


def _is_given_up(task: QueuedRequest) -> bool:
    """Returns whether nobody waits for a task; finishes it if its time is over."""
    if task.cancel_token.cancelled:
        return True
    if task.deadline is None or task.deadline > time.monotonic():
        return False
    task.finish(
        error=ServingError(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "Run() timeout exceeded while waiting in batching queue",
        )
    )
    return True


def _result(task: QueuedRequest) -> dict[str, np.ndarray]:
    left = None
    if task.deadline is not None:
        left = max(task.deadline - time.monotonic(), 0)
    try:
        return task.future.result(left)
    except FutureTimeoutError as error:
        raise deadline_exceeded() from error
