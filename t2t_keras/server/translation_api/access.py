"""Access of clients: API keys, and rate limits over a moving window of a minute.

The package `limits` was looked at: its storage in memory starts a timer thread.
"""

import collections
import ipaddress
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request

from t2t_keras.server.http.requests import HttpError
from t2t_keras.server.translation_api.api_keys import ApiKey, ApiKeyFile
from t2t_keras.server.translation_api.settings import TranslationApiSettings

_WINDOW_SECONDS = 60.0
_WITH_PORT = re.compile(r"(?:([\d.]+)|\[([^\[\]]+)\])(?::\d+)?")


class Access:
    """Check of a request's API key and of its client's rate.

    Raises:
        UserError: If the file of keys cannot be used.
    """

    def __init__(self, settings: TranslationApiSettings):
        self._settings = settings
        self._limiter = RateLimiter()
        path = settings.api_keys_file
        self._keys = ApiKeyFile(path) if path else None

    def check(self, request: Request, fields: Mapping[str, Any], cost: int = 1) -> None:
        """Counts a request, which may have a key among its fields, as `cost` requests.

        Raises:
            HttpError: 403 for a wrong key, 400 for a missing one, 429 for too many
                requests.
        """
        address = client_address(request, self._settings.trust_forwarded_for)
        given = fields.get("api_key")
        key = self._find_key(given)
        if key is None:
            # A wrong key counts for the address, which slows down who guesses.
            self._count(address, self._settings.requests_per_minute, cost)
            if self._keys and given:
                raise HttpError(403, "Invalid API key")
            if self._keys and self._settings.require_api_key:
                text = "Please contact the server operator to get an API key"
                raise HttpError(400, text)
            return
        limit = key.requests_per_minute
        if limit is None:
            limit = self._settings.requests_per_minute
        self._count(f"key {key.digest.hex()}", limit, cost)

    def _find_key(self, given: Any) -> ApiKey | None:
        if self._keys is None or not isinstance(given, str) or not given:
            return None
        return self._keys.find(given)

    def _count(self, client: str, limit: int, cost: int) -> None:
        if limit == -1:
            return
        wait = self._limiter.seconds_to_wait(client, limit, cost)
        if wait:
            text = f"Slowdown: {limit} per 1 minute"
            raise HttpError(429, text, wait)


class RateLimiter:
    """Counter of the requests of each client within the last minute.

    Clients are forgotten a minute after their last request. For one thread. `clock`
    returns seconds.
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


def client_address(request: Request, trust_forwarded_for: bool) -> str:
    """Returns the address by which a client is counted.

    That is the network of 64 bits of an IPv6 address, since one client has all of it.
    Some proxies append a port, which is another one for each connection. What is no
    address counts for the proxy.

    Args:
        request: The request.
        trust_forwarded_for: Whether a reverse proxy appends the address to the header
            X-Forwarded-For. Earlier entries are whatever the client sent.
    """
    address = request.client.host if request.client else ""
    parsed = _parse_address(address)
    forwarded = request.headers.getlist("x-forwarded-for")
    if trust_forwarded_for and forwarded:
        parsed = _parse_address(forwarded[-1].rpartition(",")[2].strip()) or parsed
    if parsed is None:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns the address of `1.2.3.4`, `1.2.3.4:80`, `2001:db8::1` or `[::1]:80`."""
    with_port = _WITH_PORT.fullmatch(text)
    address = (with_port[1] or with_port[2]) if with_port else text
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None
