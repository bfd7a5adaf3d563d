"""What is tried again, and after how long."""

import grpc

from t2t_keras.serving.client.retries import RetryPolicy, is_retriable, is_size_error

Code = grpc.StatusCode


class Failed(grpc.RpcError):
    """A call's end, as grpc tells it."""

    def __init__(self, code, details=""):
        super().__init__()
        self.code = lambda: code
        self.details = lambda: details


def test_waits_double_up_to_the_longest():
    policy = RetryPolicy(first_wait_seconds=0.25, longest_wait_seconds=3.0)
    waits = [policy.wait_seconds(n, draw=lambda: 1.0) for n in (1, 2, 3, 4, 5, 6)]
    assert waits == [0.25, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert policy.wait_seconds(5_000, draw=lambda: 1.0) == 3.0


def test_waits_are_drawn_from_nothing_to_the_whole():
    """Without it, all clients of a server that was gone come back at once."""
    policy = RetryPolicy(first_wait_seconds=1.0)
    assert policy.wait_seconds(1, draw=lambda: 0.0) == 0.0
    drawn = [policy.wait_seconds(1) for _ in range(400)]
    assert 0 <= min(drawn) < 0.1 and 0.9 < max(drawn) < 1


def test_only_a_server_without_time_is_asked_again():
    for code in Code:
        expected = code in (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.CANCELLED)
        assert is_retriable(Failed(code)) == expected, code


def test_a_message_too_large_stays_too_large():
    error = Failed(
        Code.RESOURCE_EXHAUSTED, "CLIENT: Received message larger than max (9 vs. 4)"
    )
    assert is_size_error(error) and not is_retriable(error)
    other = Failed(Code.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
    assert not is_size_error(other)
    assert not is_size_error(Failed(Code.RESOURCE_EXHAUSTED, None))
