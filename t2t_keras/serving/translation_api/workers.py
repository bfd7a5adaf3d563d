"""Blocking work in a bounded number of threads, given up when the client leaves."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request

from t2t_keras.serving.http.requests import until_disconnect
from t2t_keras.serving.translation_api.api_error import busy


class Workers:
    """Threads for the work of requests.

    Args:
        threads: Requests that are worked on at a time.
        max_waiting: Further requests that may wait.
    """

    def __init__(self, threads: int, max_waiting: int):
        self._executor = ThreadPoolExecutor(threads, "translation_api")
        self._free = threading.BoundedSemaphore(threads + max_waiting)

    def close(self) -> None:
        """Ends the threads, each when the call that it makes has an answer."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def run(
        self, request: Request, work: Callable[[threading.Event], Any]
    ) -> Any:
        """Returns the result of some work.

        Args:
            request: The request, whose body has been read.
            work: Called in a thread with an event that is set when the client leaves.

        Raises:
            HttpError: 503 if too many requests wait.
            ClientDisconnect: If the client has left.
        """
        if not self._free.acquire(blocking=False):
            raise busy()
        cancelled = threading.Event()
        future = self._executor.submit(work, cancelled)
        # The place is free when the thread is, which may be after the client has left.
        future.add_done_callback(lambda _: self._free.release())

        async def wait() -> Any:
            return await asyncio.wrap_future(future)

        try:
            return await until_disconnect(request, wait())
        finally:
            cancelled.set()
