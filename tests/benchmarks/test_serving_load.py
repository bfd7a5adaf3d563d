"""Benchmark of serving load: counts with correct, wrong and unavailable servers."""

import itertools
import threading

import grpc
import numpy as np
import pytest

from benchmarks.serving_load.clients import connect_grpc
from benchmarks.serving_load.loops import (
    Outcome,
    after,
    closed_loop,
    expected_answers,
    open_loop,
)
from tests.serving.fake_server import RefusalError, serve, shout

TEXTS = (b"ab", b"cde", b"f")


@pytest.fixture
def expected():
    with serve(shout) as (server, _):
        return expected_answers(connect_grpc, server, TEXTS)


class EveryThirdWrong:
    """Fake model that changes a field of the first and of every third later answer."""

    def __init__(self, field, change):
        self.field, self.change = field, change
        self.numbers = itertools.count()
        self.changed = []

    def __call__(self, request):
        answer = dict(shout(request))
        if next(self.numbers) % 3 == 0:
            answer[self.field] = self.change(answer[self.field])
            self.changed.append(answer)
        return answer


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


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("translation", lambda texts: np.array([text + b"!" for text in texts])),
        ("score", lambda scores: scores - np.float32(2e-5)),
        ("score", lambda scores: scores * np.float32("nan")),
    ],
)
def test_wrong_answers_are_seen(expected, field, change):
    answer = EveryThirdWrong(field, change)
    with serve(answer) as (server, _):
        for outcome in run_loops(server, expected):
            assert set(outcome.statuses) == {"OK"}
            assert len(outcome.wrong) == len(answer.changed) > 0
            answer.changed.clear()


def test_refusals_are_counted_by_their_status(expected):
    def refuse(request):
        raise RefusalError(grpc.StatusCode.UNAVAILABLE)

    with serve(refuse) as (server, _):
        for outcome in run_loops(server, expected):
            assert set(outcome.statuses) == {"UNAVAILABLE"}
            assert outcome.seconds == []


def test_requests_without_an_answer_end_at_the_timeout(expected):
    ended = threading.Event()

    def hang(request):
        ended.wait(60)
        return shout(request)

    with serve(hang) as (server, _):
        outcome = open_loop(server, expected, rate=50, seconds=0.3, timeout=0.5)
        ended.set()
    # The server may cancel queued requests earlier; these have the same status.
    assert set(outcome.statuses) == {"DEADLINE_EXCEEDED"}
    assert outcome.lost == 0


def test_percentiles_are_those_of_the_answers():
    outcome = Outcome(seconds=[float(n) for n in range(100, 0, -1)])
    assert [outcome.percentile(p) for p in (0, 50, 95, 99, 100)] == [
        1,
        51,
        96,
        100,
        100,
    ]
