"""Retry policy of the client: which calls are repeated, and after how long.

A translation changes nothing on the server, so any call may be repeated. A call is
repeated if that can help: a server that is starting or busy answers later; one that was
given a wrong name never does.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from t2t_keras.errors import UserError


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with full jitter.

    gRPC's own retries stop at five attempts, and at requests of 256 kB.

    Attributes:
        retries: Maximum number of times that a call is repeated; 0 for never.
        first_wait_seconds: Longest wait before the first repetition; it doubles
            with each.
        longest_wait_seconds: Where it stops doubling.

    Raises:
        UserError: If `retries` is negative.
    """

    retries: int = 6
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise UserError(f"--retries must be at least 0: {self.retries}")

    def wait_seconds(
        self, failures: int, draw: Callable[[], float] = random.random
    ) -> float:
        """Returns how long to wait after that many failures, 1 or more.

        A random time from 0 to the longest, so that clients that a server refused
        together do not return together.

        Args:
            failures: Failures of this call so far.
            draw: Function that returns a number in [0, 1).
        """
        # Bounded, or a float overflows after a thousand failures.
        doubled = self.first_wait_seconds * 2.0 ** min(failures - 1, 60)
        return draw() * min(doubled, self.longest_wait_seconds)


def is_retriable(error: grpc.RpcError) -> bool:
    """Returns whether the same call may succeed later.

    A call whose deadline has passed is not repeated: its caller no longer waits, and a
    server that is too slow would get the work twice.
    """
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        # Too many calls at a time; or a message too large, which stays too large.
        return not is_size_error(error)
    # A server that is flooded cancels calls before it reads them.
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def is_size_error(error: grpc.RpcError) -> bool:
    """Returns whether gRPC refused a message as too large."""
    return "larger than max" in (error.details() or "")
