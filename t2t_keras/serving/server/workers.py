"""Worker threads of Predict requests: a limit, cancellation, and draining.

All methods are to be called in the event loop of the servers.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import grpc

from t2t_keras.serving.server.cancellation import CancelToken
from t2t_keras.serving.server.errors import ServingError

Result = TypeVar("Result")


class Workers:
    """Threads that answer Predict requests of all protocols.

    Args:
        max_running: Maximum number of requests at a time. Further ones are refused at
            once, so that no queue builds up.
    """

    def __init__(self, max_running: int):
        self._max_running = max_running
        self._pool = ThreadPoolExecutor(max_running, "predict")
        self._tokens: set[CancelToken] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False

    async def run(self, call: Callable[[CancelToken], Result]) -> Result:
        """Returns the result of a call in a worker thread.

        If the task that waits for it is canceled, so is the call's token.

        Raises:
            ServingError: RESOURCE_EXHAUSTED if too many are running, UNAVAILABLE if the
                server is shutting down, or what the call raises.
        """
        if self._draining:
            raise ServingError(
                grpc.StatusCode.UNAVAILABLE, "The server is shutting down."
            )
        if len(self._tokens) >= self._max_running:
            raise ServingError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"The server is working on {self._max_running} requests, the maximum "
                "at a time (--grpc_max_threads). Try again later.",
            )
        token = CancelToken()
        self._tokens.add(token)
        self._idle.clear()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._pool, call, token)
        future.add_done_callback(lambda _: self._finish(token))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            token.cancel()
            # The result of a call that nobody waits for is of no interest.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    async def drain(self, seconds: float) -> None:
        """Refuses new calls, and waits until those under way have ended.

        Args:
            seconds: Longest wait; then unfinished calls are canceled.
        """
        self._draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            for token in list(self._tokens):
                token.cancel()

    def close(self) -> None:
        """Lets threads end when their calls do."""
        self._pool.shutdown(wait=False)

    def _finish(self, token: CancelToken) -> None:
        self._tokens.discard(token)
        if not self._tokens:
            self._idle.set()
