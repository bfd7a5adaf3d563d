"""What a worker says of the others, and the ports and signals that are its own."""

import faulthandler
import signal
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.runs import workers
from t2t_keras.settings.config import TrainingConfig


def worker_of_two(index: int):
    """A strategy of two processes, as far as anyone asks who is who."""
    cluster = tf.train.ClusterSpec({"worker": ["host0:2222", "host1:2222"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster, task_type="worker", task_id=index
    )
    return SimpleNamespace(cluster_resolver=resolver)


# As a worker gets to read it whose partner was killed.
LOST = (
    "{{function_node __inference_<lambda>_83}} Collective ops is aborted by: Socket "
    "closed\nAdditional GRPC error information from remote target /job:worker/"
    f"replica:0/task:0:\n{'restart ' * 99}\n\t [[{{{{node CollectiveReduceV2}}}}]]"
)


@pytest.mark.parametrize("kind", ["Unavailable", "Aborted", "Cancelled"])
def test_a_lost_worker_is_told_with_tensorflows_own_words(kind) -> None:
    error = getattr(tf.errors, f"{kind}Error")(None, None, LOST)
    with (
        pytest.raises(UserError, match="Another worker stopped") as stopped,
        workers.explain_lost_worker(worker_of_two(1)),
    ):
        raise error
    text = str(stopped.value)
    assert f"{kind}Error: Collective ops is aborted by: Socket closed Addi" in text
    assert "task:0" in text
    assert "node" not in text
    assert "\n" not in text
    assert len(text) < 700


@pytest.mark.parametrize("kind", ["ResourceExhausted", "DataLoss", "InvalidArgument"])
def test_what_fails_here_is_not_laid_on_another(kind) -> None:
    error = getattr(tf.errors, f"{kind}Error")
    with (
        pytest.raises(error, match="no room"),
        workers.explain_lost_worker(worker_of_two(1)),
    ):
        raise error(None, None, "no room")


def test_a_process_alone_has_no_one_to_lose() -> None:
    with (
        pytest.raises(tf.errors.UnavailableError),
        workers.explain_lost_worker(tf.distribute.get_strategy()),
    ):
        raise tf.errors.UnavailableError(None, None, LOST)


def test_at_the_end_the_chief_minds_no_one_who_is_gone(monkeypatch) -> None:
    def lost(_) -> None:
        raise tf.errors.UnavailableError(None, None, LOST)

    monkeypatch.setattr(workers, "wait_for_all", lost)
    workers.wait_to_leave(worker_of_two(0))
    with pytest.raises(tf.errors.UnavailableError):
        workers.wait_to_leave(worker_of_two(1))


def test_a_port_that_another_has_is_said(monkeypatch) -> None:
    def fail(*_):
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")

    monkeypatch.setattr(workers, "build_strategy", fail)
    with pytest.raises(tf.errors.UnknownError):  # alone, it is something else
        workers.set_up_devices(TrainingConfig())
    monkeypatch.setattr(workers, "num_workers", lambda: 2)
    with pytest.raises(UserError, match=r"port, .* UnknownError: Could not start gRPC"):
        workers.set_up_devices(TrainingConfig())


def test_ports_are_free_and_not_those_that_the_system_gives_away() -> None:
    ports = workers.free_ports(3)
    assert len(set(ports)) == 3
    for port in ports:
        assert 20_000 <= port < 32_768
        with socket.socket() as each:
            each.bind(("localhost", port))


def test_a_port_that_is_taken_is_passed_over(monkeypatch) -> None:
    port, other = workers.free_ports(2)
    monkeypatch.setattr(workers, "_PORTS", (port, other))
    with socket.socket() as taken:
        taken.bind(("localhost", port))
        taken.listen()
        assert workers.free_ports(1) == [other]
        with pytest.raises(UserError, match=r"2 free .* have only 1\."):
            workers.free_ports(2)


def is_caught(number: int) -> bool:
    """Returns whether a signal has a handler, as the kernel sees it."""
    status = Path("/proc/self/status").read_text()
    (caught,) = (line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_sigterm_ends_a_worker_that_waits(monkeypatch) -> None:
    """A handler of native code, as TensorFlow sets one, does not stay."""

    def take_sigterm(*_):
        faulthandler.register(signal.SIGTERM, file=2)
        assert is_caught(signal.SIGTERM)
        return worker_of_two(0)

    monkeypatch.setattr(workers, "build_strategy", take_sigterm)
    try:
        workers.set_up_devices(TrainingConfig())
        assert is_caught(signal.SIGTERM) == callable(signal.getsignal(signal.SIGTERM))
    finally:
        faulthandler.unregister(signal.SIGTERM)
