"""Load test of the server, short enough for CI; `benchmarks.serving_load` runs longer.

Nothing is timed. Every request must end, with a correct answer or with a status that
explains the refusal.
"""

import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.server_process import BATCHING, started_server
from benchmarks.serving_load import (
    closed_loop,
    expected_answers,
    memory_samples,
    open_loop,
)

# Each test needs a trained model and a process.
pytestmark = pytest.mark.release

CLIENTS = 64
SECONDS = 8
# Statuses of an overloaded server.
OVERLOADED = frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"})


@pytest.fixture(scope="module")
def texts(reverse_run):
    return [source.encode() for source, _ in reverse_run.held_out[:100]]


@pytest.fixture
def base(reverse_run, tmp_path):
    """A base directory with one version, which the test may change."""
    shutil.copytree(reverse_run.model_dir.export / "1", tmp_path / "base" / "1")
    return tmp_path / "base"


def test_many_clients_get_right_answers_and_memory_stays(base, texts):
    with started_server(base, batching=BATCHING) as server:
        expected = expected_answers(server.address, texts)
        # Warm-up: all threads and batch sizes are used once and allocate their memory.
        closed_loop(server.address, expected, clients=CLIENTS, seconds=2)
        with memory_samples(server) as samples:
            outcome = closed_loop(
                server.address, expected, clients=CLIENTS, seconds=SECONDS
            )
    assert set(outcome.statuses) == {"OK"}
    assert outcome.statuses["OK"] > CLIENTS
    assert outcome.wrong == []
    quarter = len(samples) // 4 or 1
    growth = max(samples[-quarter:]) - max(samples[:quarter])
    # A copy of the weights or a leak of 20 kB per request would exceed this.
    assert growth < 20, samples


def test_too_many_requests_are_refused_and_none_hangs(base, texts):
    """At most four rows can wait, far fewer than arrive while two are translated."""
    batching = BATCHING.replace("value: 100", "value: 1").replace("32", "2")
    batching = batching.replace("[1, 2, 4, 8, 16, 2]", "[1, 2]")
    flags = ("--grpc_max_threads=8", "--noenable_model_warmup")
    with started_server(base, *flags, batching=batching) as server:
        expected = expected_answers(server.address, texts)
        outcome = open_loop(
            server.address, expected, rate=800, seconds=SECONDS / 2, timeout=0.5
        )
        statuses = set(outcome.statuses) - {"OK"}
        assert statuses and statuses <= OVERLOADED
        assert outcome.lost == 0
        assert outcome.wrong == []
        # Some requests succeeded, and after the load all do.
        assert outcome.statuses["OK"] > 0
        assert expected_answers(server.address, texts) == expected


def test_versions_are_swapped_under_load_without_a_failed_request(base, texts):
    outcomes, swapped = [], threading.Event()

    def ended():
        return sum(each.statuses.total() for each in outcomes)

    with started_server(
        base, "--file_system_poll_wait_seconds=0.1", batching=BATCHING
    ) as server:
        expected = expected_answers(server.address, texts)

        def load():
            while not swapped.is_set() or ended() <= 100:
                outcomes.append(
                    open_loop(server.address, expected, rate=50, seconds=1, timeout=100)
                )

        with ThreadPoolExecutor(1) as executor:
            loading = executor.submit(load)
            try:
                for version in (2, 3):
                    # Copied to another folder, then renamed, as by an export.
                    shutil.copytree(base / "1", base.parent / "new")
                    (base.parent / "new").rename(base / str(version))
                    wait_for_line(server, f"version {version - 1} unloaded")
            finally:
                swapped.set()
            loading.result()
        assert expected_answers(server.address, texts) == expected
    assert {status for each in outcomes for status in each.statuses} == {"OK"}
    assert [wrong for each in outcomes for wrong in each.wrong] == []
    assert sum(each.lost for each in outcomes) == 0


def wait_for_line(server, pattern):
    """Waits up to four minutes for a line of the server's output."""
    deadline = time.monotonic() + 240
    while not any(re.search(pattern, line) for line in server.lines):
        assert time.monotonic() < deadline, server.lines
        time.sleep(0.05)
