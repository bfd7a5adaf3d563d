"""Blocking work of a server that has an event loop: threads, a limit, cancellation."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class WorkersBusyError(Exception):
    """Refusal of a call, since as many as `limit` are under way."""

    def __init__(self, limit: int):
        super().__init__(limit)
        self.limit = limit


class WorkersClosedError(Exception):
    """Refusal of a call, since the server is shutting down."""


class Cancelled(Exception):  # noqa: N818 - not an error
    """End of work whose client has left."""


class CancelToken:
    """Says whether a request is canceled, and calls functions when it is.

    Functions are called in the thread that cancels, once, and must not block for long.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancels the request."""
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Has `callback` called if the request is canceled inside the block."""
        with self._lock:
            late = self._cancelled
            if not late:
                self._callbacks.append(callback)
        if late:
            callback()
        try:
            yield
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._callbacks.remove(callback)


class Workers:
    """Threads for calls that block. Methods are to be called in the event loop.

    Args:
        threads: Calls that run at a time.
        max_waiting: Further calls that may wait for a thread.
        name: Name of the threads.
        prepare: Called in each thread, all of which are started then. Default: a thread
            is started when it is needed.
    """

    def __init__(
        self,
        threads: int,
        max_waiting: int = 0,
        name: str = "workers",
        prepare: Callable[[], object] | None = None,
    ):
        self._limit = threads + max_waiting
        self._pool = ThreadPoolExecutor(threads, name)
        if prepare is not None:
            # Each waits for all others, so that none takes the call of another.
            barrier = threading.Barrier(threads)
            try:
                calls = [
                    self._pool.submit(_prepare, prepare, barrier)
                    for _ in range(threads)
                ]
                for call in calls:
                    call.result()
            except BaseException:
                barrier.abort()
                self._pool.shutdown(wait=False, cancel_futures=True)
                raise
        self._tokens: set[CancelToken] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False

    async def run(self, call: Callable[[CancelToken], Result]) -> Result:
        """Returns the result of a call in a thread.

        If the task that waits for it is canceled, so is the call's token, and a call
        that waits for a thread is not begun. A thread is free when its call has ended.

        Raises:
            WorkersBusyError: If too many calls are under way.
            WorkersClosedError: If the server is shutting down.
        """
        if self._draining:
            raise WorkersClosedError
        if len(self._tokens) >= self._limit:
            raise WorkersBusyError(self._limit)
        token = CancelToken()
        self._tokens.add(token)
        self._idle.clear()
        loop = asyncio.get_running_loop()

        def finish(_: object) -> None:
            # The loop may have ended before the call.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._finish, token)

        future = self._pool.submit(call, token)
        future.add_done_callback(finish)
        try:
            # Canceled with the task, it keeps a call that waits from being begun, and
            # takes no error that the call has later: nobody would read it.
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            token.cancel()
            raise

    async def drain(self, seconds: float) -> None:
        """Refuses new calls; cancels others that have not ended after some seconds."""
        self._draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            for token in list(self._tokens):
                token.cancel()

    def close(self) -> None:
        """Lets threads end when their calls do; calls that wait are not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _finish(self, token: CancelToken) -> None:
        self._tokens.discard(token)
        if not self._tokens:
            self._idle.set()


def _prepare(prepare: Callable[[], object], barrier: threading.Barrier) -> None:
    try:
        prepare()
    except BaseException:
        barrier.abort()
        raise
    # Broken if another has failed, which is reported.
    with contextlib.suppress(threading.BrokenBarrierError):
        barrier.wait()
