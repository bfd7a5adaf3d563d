"""Acceptance of connections while there are file descriptors for more than them.

asyncio accepts until none is left, and then fails thousands of times a second, with a
traceback each. Worse, what a request needs then, TensorFlow or Python cannot open.
"""

import asyncio
import contextlib
import logging
import math
import os
import socket
import time
from collections.abc import Callable

from t2t_keras.files import descriptors
from t2t_keras.server.connection_limits import end_of_http

logger = logging.getLogger(__name__)

# Time between two looks whether others have ended.
_WAIT_SECONDS = 0.1
# Shortest time between two reports that connections wait.
_REPORT_SECONDS = 60.0


class Acceptor:
    """Accepts connections; methods are to be called in the event loop.

    Args:
        listener: Socket that listens. It does not block, and is closed by `stop`.
        make_protocol: Returns the protocol of a connection.
    """

    def __init__(
        self, listener: socket.socket, make_protocol: Callable[[], asyncio.Protocol]
    ):
        self._listener = listener
        self._make_protocol = make_protocol
        self._reported = -math.inf
        self._task = asyncio.create_task(self._accept())

    async def stop(self) -> None:
        """Refuses new connections."""
        self._task.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        finally:
            self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wait_for_descriptors()
            try:
                connection, _ = await loop.sock_accept(self._listener)
                connection.setblocking(False)
                await loop.connect_accepted_socket(self._make_protocol, sock=connection)
            except OSError as error:
                # The client has left, or others took what was free.
                logger.debug("a connection was not accepted: %s", error)
                await asyncio.sleep(_WAIT_SECONDS)
            except Exception:
                # Without this loop no client would be answered any more.
                logger.exception("a connection was not accepted")
                await asyncio.sleep(_WAIT_SECONDS)

    async def _wait_for_descriptors(self) -> None:
        while not self._has_descriptors():
            if time.monotonic() - self._reported > _REPORT_SECONDS:
                self._reported = time.monotonic()
                logger.warning(
                    "connections wait until others end: this process may open %s files "
                    "(ulimit -n)",
                    descriptors.limit(),
                )
            await asyncio.sleep(_WAIT_SECONDS)

    def _has_descriptors(self) -> bool:
        end = end_of_http()
        try:
            smallest = os.dup(self._listener.fileno())
        except OSError:
            return False
        os.close(smallest)
        return end is None or smallest < end
