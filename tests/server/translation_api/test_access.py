"""Rate limit: at most so many requests within any minute."""

import random

from t2t_keras.server.translation_api.access import RateLimiter


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_a_moving_window():
    clock = Clock()
    limiter = RateLimiter(clock)
    assert [limiter.seconds_to_wait("a", 2) for _ in range(3)] == [0, 0, 60]
    assert limiter.seconds_to_wait("b", 2) == 0
    clock.now += 20.5
    # A refused request does not count.
    assert limiter.seconds_to_wait("a", 2) == 40
    clock.now += 39.5
    assert [limiter.seconds_to_wait("a", 2) for _ in range(3)] == [0, 0, 60]


def test_costs():
    clock = Clock()
    limiter = RateLimiter(clock)
    assert limiter.seconds_to_wait("a", 10, 4) == 0
    clock.now += 10
    assert limiter.seconds_to_wait("a", 10, 5) == 0
    assert limiter.seconds_to_wait("a", 10, 2) == 50
    assert limiter.seconds_to_wait("a", 10, 6) == 60
    # More than the limit counts as the limit.
    assert limiter.seconds_to_wait("b", 10, 1000) == 0
    assert limiter.seconds_to_wait("b", 10) == 60


def test_no_minute_has_more_requests_than_allowed():
    generator = random.Random(7)
    clock = Clock()
    limiter = RateLimiter(clock)
    allowed = {"a": [], "b": []}
    for _ in range(2000):
        clock.now += generator.expovariate(1 / 3)
        client = generator.choice("ab")
        wait = limiter.seconds_to_wait(client, 5)
        recent = [t for t in allowed[client] if t > clock.now - 60]
        assert (wait == 0) == (len(recent) < 5)
        if wait:
            assert recent[0] + 60 - clock.now <= wait < recent[0] + 61 - clock.now
        else:
            allowed[client].append(clock.now)
    assert min(map(len, allowed.values())) > 300


def test_clients_are_forgotten():
    clock = Clock()
    limiter = RateLimiter(clock)
    for number in range(100):
        limiter.seconds_to_wait(str(number), 1)
        clock.now += 1
    assert len(limiter._requests) == 60
