"""kill -9 of the server and of a gateway before it, in turn, under load."""

import contextlib
import os
import time
from dataclasses import dataclass

import pytest

from benchmarks.serving_load.clients import PROTOCOLS
from benchmarks.serving_load.measuring import answers_of_all, load_of_all
from t2t_keras.runs.training.workers import free_ports
from tests.programs import Programs

# It needs a trained model and processes.
pytestmark = pytest.mark.slow

# Of requests to a process that has been killed, or to a gateway whose server has.
GONE = frozenset({"UNAVAILABLE", "BROKEN", "HTTP 503"})


@dataclass
class Processes:
    """Starts a server and a gateway, again and again at the same addresses."""

    programs: Programs
    server_flags: tuple[str, ...]
    gateway_flags: tuple[str, ...]

    def start_server(self):
        return self._start(self.server_flags, "serving translate")

    def start_gateway(self):
        return self._start(self.gateway_flags, "translation API of")

    def _start(self, flags, line):
        program = self.programs.start("serve", *flags, env=os.environ)
        deadline = time.monotonic() + 240
        while line not in program.read_output()[0]:
            assert program.poll() is None, program.read_output()
            assert time.monotonic() < deadline, program.read_output()
            time.sleep(0.05)
        return program


@pytest.fixture
def ports():
    return dict(zip(PROTOCOLS, free_ports(3), strict=True))


@pytest.fixture
def processes(reverse_run, programs, ports, tmp_path):
    server = (
        f"--model_base_path={reverse_run.model_dir.export}",
        "--model_name=translate",
        f"--port={ports['gRPC']}",
        f"--rest_api_port={ports['REST']}",
        # Its file is left by a server that is killed.
        f"--grpc_socket_path={tmp_path}/socket",
        "--enable_batching",
        "--noenable_model_warmup",
    )
    gateway = (
        f"--server=localhost:{ports['gRPC']}",
        f"--translation_api_port={ports['translation API']}",
        "--language_pairs=translate:en:de",
    )
    return Processes(programs, server, gateway)


def kill(program):
    program.kill()
    program.wait()


def test_the_others_go_on_and_a_new_process_takes_over(processes, ports, reverse_run):
    texts = [source.encode() for source, _ in reverse_run.held_out[:10]]
    addresses = {protocol: f"localhost:{port}" for protocol, port in ports.items()}
    server, gateway = processes.start_server(), processes.start_gateway()
    expected = answers_of_all(addresses, texts)

    @contextlib.contextmanager
    def load():
        with load_of_all(addresses, expected, clients=4) as outcomes:
            time.sleep(0.5)
            yield outcomes
            # Longer than clients wait before they try to connect again.
            time.sleep(3)
        for outcome in outcomes.values():
            assert outcome.wrong == []

    with load() as outcomes:
        kill(gateway)
        gateway = processes.start_gateway()
    assert set(outcomes["gRPC"].statuses) == set(outcomes["REST"].statuses) == {"OK"}
    assert set(outcomes["translation API"].statuses) == {"OK", "BROKEN"}

    with load() as outcomes:
        kill(server)
        time.sleep(0.5)
        server = processes.start_server()
    for outcome in outcomes.values():
        assert "OK" in outcome.statuses, outcomes
        assert set(outcome.statuses) - {"OK"} <= GONE
    assert "HTTP 503" in outcomes["translation API"].statuses
    # The gateway is the same process, and answers again.
    assert gateway.poll() is None
    assert answers_of_all(addresses, texts) == expected
