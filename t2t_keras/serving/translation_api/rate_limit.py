"""Rate limit of each client: a moving window of a minute.

The package `limits` was looked at: its storage in memory starts a timer thread.
"""

import collections
import math
import time
from collections.abc import Callable

_WINDOW_SECONDS = 60.0


class RateLimiter:
    """Counter of the requests of each client within the last minute.

    Clients are forgotten a minute after their last request. For one thread.

    Args:
        clock: Function that returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        # Time and cost of the requests of each client; the client of the latest
        # request last.
        self._requests: collections.OrderedDict[
            str, collections.deque[tuple[float, int]]
        ] = collections.OrderedDict()

    def seconds_to_wait(self, client: str, limit: int, cost: int = 1) -> int:
        """Counts a request and returns 0, or returns after how long it will be allowed.

        Args:
            client: Key or address.
            limit: Maximum sum of costs in a minute, at least 1.
            cost: Number of texts in the request. More than `limit` counts as `limit`,
                or the request would never be allowed.
        """
        now = self._clock()
        self._forget(now - _WINDOW_SECONDS)
        requests = self._requests.setdefault(client, collections.deque())
        while requests and requests[0][0] <= now - _WINDOW_SECONDS:
            requests.popleft()
        cost = min(cost, limit)
        excess = sum(each for _, each in requests) + cost - limit
        if excess <= 0:
            requests.append((now, cost))
            self._requests.move_to_end(client)
            return 0
        for start, each in requests:
            excess -= each
            if excess <= 0:
                return max(1, math.ceil(start + _WINDOW_SECONDS - now))
        raise AssertionError  # a cost of at most the limit fits an empty window

    def _forget(self, before: float) -> None:
        """Removes clients without a request since a time."""
        while self._requests:
            client, requests = next(iter(self._requests.items()))
            if requests and requests[-1][0] > before:
                return
            del self._requests[client]
