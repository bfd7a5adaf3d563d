"""Access of clients: API keys and rate limits."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from t2t_keras.serving.http.requests import HttpError
from t2t_keras.serving.translation_api.api_keys import ApiKey, ApiKeyFile
from t2t_keras.serving.translation_api.rate_limit import RateLimiter
from t2t_keras.serving.translation_api.settings import TranslationApiSettings


class Access:
    """Check of a request's API key and of its client's rate.

    Args:
        settings: Limits, and the file of keys.

    Raises:
        UserError: If the file of keys cannot be used.
    """

    def __init__(self, settings: TranslationApiSettings):
        self._settings = settings
        self._limiter = RateLimiter()
        path = settings.api_keys_file
        self._keys = ApiKeyFile(path) if path else None

    def check(self, request: Request, fields: Mapping[str, Any], cost: int = 1) -> None:
        """Counts a request.

        Args:
            request: The request.
            fields: Its fields, for the key.
            cost: Number of requests that it counts for.

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


def client_address(request: Request, trust_forwarded_for: bool) -> str:
    """Returns the address by which a client is counted.

    That is the network of 64 bits of an IPv6 address, since one client has all of it.

    Args:
        request: The request.
        trust_forwarded_for: Whether a reverse proxy appends the address to the header
            X-Forwarded-For. Earlier entries are whatever the client sent.
    """
    address = request.client.host if request.client else ""
    forwarded = request.headers.getlist("x-forwarded-for")
    if trust_forwarded_for and forwarded:
        address = forwarded[-1].rpartition(",")[2].strip()
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
