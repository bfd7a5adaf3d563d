"""Load tests of the server over gRPC, REST and the translation API.

Nothing is timed; `benchmarks.serving_load` does that. Every request must end, with a
correct answer or with a status that explains the refusal. The slow tier has seconds of
each load, the release tier a minute.
"""

import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.server_process import BATCHING, started_server
from benchmarks.serving_load.clients import PROTOCOLS, connect_grpc
from benchmarks.serving_load.loops import (
    after,
    closed_loop,
    expected_answers,
    open_loop,
)
from benchmarks.serving_load.measuring import (
    Usage,
    addresses,
    p95_beside_slow_clients,
    started_everything,
)

CLIENTS = 64
# Statuses of an overloaded server.
OVERLOADED = frozenset(
    {"RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "HTTP 429", "HTTP 503"}
)

short = pytest.mark.slow
full = pytest.mark.release
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.fixture(scope="module")
def texts(reverse_run):
    return [source.encode() for source, _ in reverse_run.held_out[:40]]


@pytest.fixture(scope="module")
def server(reverse_run):
    with started_everything(reverse_run.model_dir.export) as started:
        yield started


@pytest.fixture
def base(reverse_run, tmp_path):
    """A base directory with one version, which the test may change."""
    shutil.copytree(reverse_run.model_dir.export / "1", tmp_path / "base" / "1")
    return tmp_path / "base"


def right_answers(protocol, server, texts):
    """Returns what a protocol answers without load: the translations of gRPC."""
    expected = expected_answers(PROTOCOLS[protocol], addresses(server)[protocol], texts)
    by_grpc = expected_answers(connect_grpc, server.address, texts)
    assert [expected[each].text for each in texts] == [
        by_grpc[each].text for each in texts
    ]
    return expected


@protocols
@pytest.mark.parametrize(
    "seconds", [pytest.param(3, marks=short), pytest.param(60, marks=full)]
)
def test_many_clients_get_right_answers_and_memory_stays(
    protocol, seconds, server, texts
):
    expected = right_answers(protocol, server, texts)
    connect, address = PROTOCOLS[protocol], addresses(server)[protocol]

    def load(seconds):
        return closed_loop(
            connect, address, expected, clients=CLIENTS, until=after(seconds)
        )

    # All threads and batch sizes are used once and allocate their memory.
    load(seconds / 3)
    with Usage(server) as usage:
        outcome = load(seconds)
    assert set(outcome.statuses) == {"OK"}
    assert outcome.statuses["OK"] > CLIENTS
    assert outcome.wrong == []
    # A copy of the weights or a leak of 20 kB per request would exceed this.
    assert usage.growth() < 0.02, usage.memory_mb


@short
@protocols
def test_more_clients_than_threads_are_refused_or_answered(protocol, server, texts):
    expected = right_answers(protocol, server, texts)
    connect, address = PROTOCOLS[protocol], addresses(server)[protocol]
    outcome = closed_loop(connect, address, expected, clients=300, until=after(1))
    assert outcome.statuses["OK"] > 0
    assert set(outcome.statuses) - {"OK"} <= OVERLOADED
    assert outcome.wrong == []
    assert expected_answers(connect, address, texts) == expected


@protocols
@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [pytest.param(0.5, 1, marks=short), pytest.param(10, 3, marks=full)],
)
def test_slow_clients_harm_nobody(protocol, seconds, rounds, server, texts):
    """Some send, some read ten bytes a second. The benchmark has the latencies."""
    expected = right_answers(protocol, server, texts)
    address = addresses(server)[protocol]
    for outcomes in p95_beside_slow_clients(
        protocol, address, expected, seconds, rounds
    ):
        for outcome in outcomes:
            assert set(outcome.statuses) == {"OK"}
            assert outcome.wrong == []


@full
def test_too_many_requests_are_refused_and_none_hangs(base, texts):
    """At most four rows can wait, far fewer than arrive while two are translated."""
    batching = BATCHING.replace("value: 100", "value: 1").replace("32", "2")
    batching = batching.replace("[1, 2, 4, 8, 16, 2]", "[1, 2]")
    flags = ("--grpc_max_threads=8", "--noenable_model_warmup")
    with started_server(base, *flags, batching=batching) as server:
        expected = expected_answers(connect_grpc, server.address, texts)
        outcome = open_loop(server.address, expected, rate=800, seconds=4, timeout=0.5)
        statuses = set(outcome.statuses) - {"OK"}
        assert statuses and statuses <= OVERLOADED
        assert outcome.lost == 0
        assert outcome.wrong == []
        # Some requests succeeded, and after the load all do.
        assert outcome.statuses["OK"] > 0
        assert expected_answers(connect_grpc, server.address, texts) == expected


@full
def test_versions_are_swapped_under_load_without_a_failed_request(base, texts):
    outcomes, swapped = [], threading.Event()

    def ended():
        return sum(each.statuses.total() for each in outcomes)

    with started_server(
        base, "--file_system_poll_wait_seconds=0.1", batching=BATCHING
    ) as server:
        expected = expected_answers(connect_grpc, server.address, texts)

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
        assert expected_answers(connect_grpc, server.address, texts) == expected
    assert {status for each in outcomes for status in each.statuses} == {"OK"}
    assert [wrong for each in outcomes for wrong in each.wrong] == []
    assert sum(each.lost for each in outcomes) == 0


def wait_for_line(server, pattern):
    """Waits up to four minutes for a line of the server's output."""
    deadline = time.monotonic() + 240
    while not any(re.search(pattern, line) for line in server.lines):
        assert time.monotonic() < deadline, server.lines
        time.sleep(0.05)
