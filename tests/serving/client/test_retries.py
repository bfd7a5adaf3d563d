"""Retry policy: retriable errors and exponential backoff."""

import grpc

from t2t_keras.serving.client.retries import RetryPolicy, is_retriable, is_size_error

Code = grpc.StatusCode


class FailedCall(grpc.RpcError):
    """Fake of a failed gRPC call."""

    def __init__(self, code, details=""):
        super().__init__()
        self.code = lambda: code
        self.details = lambda: details


def test_waits_double_up_to_the_longest():
    policy = RetryPolicy(first_wait_seconds=0.25, longest_wait_seconds=3.0)
    waits = [policy.wait_seconds(n, draw=lambda: 1.0) for n in (1, 2, 3, 4, 5, 6)]
    assert waits == [0.25, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert policy.wait_seconds(5_000, draw=lambda: 1.0) == 3.0


def test_waits_have_full_jitter():
    """Without it, all clients of a server that was down would retry at once."""
    policy = RetryPolicy(first_wait_seconds=1.0)
    assert policy.wait_seconds(1, draw=lambda: 0.0) == 0.0
    drawn = [policy.wait_seconds(1) for _ in range(400)]
    assert 0 <= min(drawn) < 0.1 and 0.9 < max(drawn) < 1


def test_only_temporary_errors_are_retriable():
    for code in Code:
        expected = code in (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.CANCELLED)
        assert is_retriable(FailedCall(code)) == expected, code


def test_a_message_that_is_too_large_is_not_retriable():
    error = FailedCall(
        Code.RESOURCE_EXHAUSTED, "CLIENT: Received message larger than max (9 vs. 4)"
    )
    assert is_size_error(error) and not is_retriable(error)
    other = FailedCall(Code.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
    assert not is_size_error(other)
    assert not is_size_error(FailedCall(Code.RESOURCE_EXHAUSTED, None))
