"""A server with all protocols; what it uses; loads of all, and beside slow clients."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.server_process import BATCHING, ServerProcess, started_server
from benchmarks.serving_load.clients import PROTOCOLS
from benchmarks.serving_load.loops import (
    Expected,
    Outcome,
    after,
    closed_loop,
    expected_answers,
)
from benchmarks.serving_load.slow_clients import slow_clients
from t2t_keras.runs.training.workers import free_ports

NORMAL_CLIENTS = 16
SLOW_CLIENTS = 16


def started_everything(base: Path, *flags: str, batching: str = BATCHING) -> Any:
    """Returns `started_server` with all three protocols."""
    return started_server(
        base,
        f"--rest_api_port={free_ports(1)[0]}",
        "--translation_api_port=0",
        "--language_pairs=translate:en:de",
        *flags,
        batching=batching,
    )


def addresses(server: ServerProcess) -> Mapping[str, str]:
    """Returns host:port of each protocol."""
    ports = server.address, server.rest_address, server.translation_api_address
    return dict(zip(PROTOCOLS, ports, strict=True))


def answers_of_all(
    addresses: Mapping[str, str], texts: Sequence[bytes]
) -> dict[str, Expected]:
    """Returns the answers of each protocol to each text, without load."""
    return {
        protocol: expected_answers(PROTOCOLS[protocol], address, texts)
        for protocol, address in addresses.items()
    }


@contextlib.contextmanager
def load_of_all(
    addresses: Mapping[str, str],
    expected: Mapping[str, Expected],
    clients: int,
    fewest: int = 0,
) -> Iterator[dict[str, Outcome]]:
    """Runs the closed loop of each protocol until the context ends.

    Args:
        addresses: host:port of each protocol.
        expected: Texts and right answers of each.
        clients: Number of clients of each.
        fewest: Requests that each client sends in any case.

    Yields:
        A dictionary that has the outcome of each protocol after the context.
    """
    over = threading.Event()
    outcomes: dict[str, Outcome] = {}
    with ThreadPoolExecutor(len(addresses)) as executor:
        running = {
            protocol: executor.submit(
                closed_loop,
                PROTOCOLS[protocol],
                address,
                expected[protocol],
                clients=clients,
                until=over.is_set,
                fewest=fewest,
            )
            for protocol, address in addresses.items()
        }
        try:
            yield outcomes
        finally:
            over.set()
    outcomes.update({name: each.result() for name, each in running.items()})


class Usage:
    """What a server uses while a context lasts.

    Attributes:
        memory_mb: Its resident memory every 0.2 s, in 2**20 bytes.
        cpu_seconds: Time of processors.
    """

    def __init__(self, server: ServerProcess):
        self.memory_mb: list[float] = []
        self.cpu_seconds = 0.0
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "Usage":
        self._before = self._server.cpu_seconds()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self.cpu_seconds = self._server.cpu_seconds() - self._before

    def growth(self) -> float:
        """Returns how much larger the memory is at the end than in the middle.

        The largest values of two seconds are compared. Half of the time is for caches
        to fill.
        """
        middle = len(self.memory_mb) // 2
        before = max(self.memory_mb[max(middle - 10, 0) : middle + 1])
        return max(self.memory_mb[-10:]) / before - 1

    def _sample(self) -> None:
        while not self._stop.wait(0.2):
            self.memory_mb.append(self._server.memory_mb())


def p95_beside_slow_clients(
    protocol: str, address: str, expected: Expected, seconds: float, rounds: int = 3
) -> tuple[list[Outcome], list[Outcome]]:
    """Runs normal clients alone and beside slow ones.

    They alternate, so that both see the same machine.

    Returns:
        Outcomes of the normal clients alone, and beside slow ones.
    """
    alone, beside = [], []

    def measure() -> Outcome:
        return closed_loop(
            PROTOCOLS[protocol],
            address,
            expected,
            clients=NORMAL_CLIENTS,
            until=after(seconds),
        )

    for _ in range(rounds):
        alone.append(measure())
        with slow_clients(protocol, address, SLOW_CLIENTS):
            # Until the requests of those that read slowly are translated.
            time.sleep(2)
            beside.append(measure())
    return alone, beside
