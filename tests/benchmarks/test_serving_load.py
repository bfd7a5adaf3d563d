"""Benchmark of serving load: both loops count and time the answers of a server."""

import pytest

from benchmarks.serving_load.clients import connect_grpc
from benchmarks.serving_load.loops import (
    after,
    closed_loop,
    expected_answers,
    open_loop,
)
from tests.serving.fake_server import serve, shout

TEXTS = (b"ab", b"cde", b"f")


@pytest.fixture
def expected():
    with serve(shout) as (server, _):
        return expected_answers(connect_grpc, server, TEXTS)


def run_loops(server, expected):
    """Runs the closed and the open loop briefly; yields their outcomes."""
    yield closed_loop(connect_grpc, server, expected, clients=3, until=after(0.5))
    yield open_loop(server, expected, rate=100, seconds=0.3, timeout=60)


def test_right_answers_are_counted_and_timed(expected):
    with serve(shout) as (server, service):
        for outcome in run_loops(server, expected):
            assert set(outcome.statuses) == {"OK"}
            assert outcome.statuses["OK"] == len(outcome.seconds) > 5
            assert (outcome.wrong, outcome.lost) == ([], 0)
            assert 0 < outcome.percentile(50) <= outcome.percentile(99) < 5
    assert 1 <= service.max_concurrent <= 16
