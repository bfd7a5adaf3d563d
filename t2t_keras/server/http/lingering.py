"""Connections that read on for a while after the server has closed them."""

import asyncio
from collections.abc import Callable
from typing import Any

# A client that sends a body too large may take its answer only when it has sent all.
_SECONDS = 30.0
_BYTES = 256 * 2**20


class LingeringTransport:
    """Transport that can be closed while its client is still sending.

    If the server closed it at once, the system would answer what arrives then by a
    reset, upon which the client loses the answer to its request.

    Args:
        transport: Transport of a socket.
        loop: Event loop of the transport.
        is_sending: Returns whether the client has not sent all of its request.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        is_sending: Callable[[], bool],
    ):
        self._transport = transport
        self._loop = loop
        self._is_sending = is_sending
        self._bytes_left = _BYTES
        self._timer: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    @property
    def lingers(self) -> bool:
        """Whether what arrives is to be given to `discard`."""
        return self._timer is not None

    def is_closing(self) -> bool:
        """Returns whether nothing can be written any more."""
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        """Ends the answer, and closes when the client has, or after a while.

        Closes at once if the client is not sending, and if it is called again.
        """
        if self.is_closing() or not self._is_sending():
            self._transport.close()
            return
        self._timer = self._loop.call_later(_SECONDS, self._transport.close)
        self._transport.resume_reading()
        try:
            self._transport.write_eof()
        except OSError:
            # The client has reset the connection.
            self._transport.close()

    def discard(self, data: bytes) -> None:
        """Takes what arrives after `close`."""
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self._transport.close()

    def stop_timer(self) -> None:
        """To be called when the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
