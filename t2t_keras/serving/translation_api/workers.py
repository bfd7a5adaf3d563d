"""Blocking work in a bounded number of threads, given up when the client leaves."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request

from t2t_keras.serving.translation_api.api_error import Cancelled, busy


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
            ApiError: 503 if too many requests wait.
            Cancelled: If the client has left.
        """
        if not self._free.acquire(blocking=False):
            raise busy()
        cancelled = threading.Event()
        future = self._executor.submit(work, cancelled)
        # The place is free when the thread is, which may be after the client has left.
        future.add_done_callback(lambda _: self._free.release())
        result = asyncio.wrap_future(future)
        gone = asyncio.ensure_future(_wait_until_gone(request))
        try:
            await asyncio.wait({result, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise Cancelled
            return result.result()
        finally:
            cancelled.set()
            result.cancel()
            gone.cancel()


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
