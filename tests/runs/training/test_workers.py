"""Workers: errors about lost workers, free ports, and signal handlers."""

import faulthandler
import signal
import socket
from pathlib import Path

import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.runs.training import workers
from t2t_keras.settings.training_config import TrainingConfig
from tests.devices import fake_strategy

# Message that a worker gets when the other worker was killed.
LOST = (
    "{{function_node __inference_<lambda>_83}} Collective ops is aborted by: Socket "
    "closed\nAdditional GRPC error information from remote target /job:worker/"
    f"replica:0/task:0:\n{'restart ' * 99}\n\t [[{{{{node CollectiveReduceV2}}}}]]"
)


@pytest.mark.parametrize("kind", ["Unavailable", "Aborted", "Cancelled"])
def test_the_error_about_a_lost_worker_quotes_tensorflow(kind) -> None:
    error = getattr(tf.errors, f"{kind}Error")(None, None, LOST)
    with (
        pytest.raises(UserError, match="Another worker stopped") as stopped,
        workers.explain_lost_worker(fake_strategy(1)),
    ):
        raise error
    text = str(stopped.value)
    assert f"{kind}Error: Collective ops is aborted by: Socket closed Addi" in text
    assert "task:0" in text
    assert "node" not in text
    assert "\n" not in text
    assert len(text) < 700


@pytest.mark.parametrize("kind", ["ResourceExhausted", "DataLoss", "InvalidArgument"])
def test_an_error_of_this_worker_is_not_blamed_on_another(kind) -> None:
    error = getattr(tf.errors, f"{kind}Error")
    with (
        pytest.raises(error, match="no room"),
        workers.explain_lost_worker(fake_strategy(1)),
    ):
        raise error(None, None, "no room")


def test_a_process_alone_has_no_one_to_lose() -> None:
    with (
        pytest.raises(tf.errors.UnavailableError),
        workers.explain_lost_worker(tf.distribute.get_strategy()),
    ):
        raise tf.errors.UnavailableError(None, None, LOST)


def test_a_port_in_use_is_reported(monkeypatch) -> None:
    def fail(*_):
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")

    monkeypatch.setattr(workers, "build_strategy", fail)
    with pytest.raises(tf.errors.UnknownError):  # with one worker, another cause
        workers.set_up_devices(TrainingConfig())
    monkeypatch.setattr(workers, "num_workers", lambda: 2)
    with pytest.raises(UserError, match=r"port, .* UnknownError: Could not start gRPC"):
        workers.set_up_devices(TrainingConfig())


def test_the_wait_for_other_workers_is_logged_and_not_printed(
    monkeypatch, capfd
) -> None:
    monkeypatch.setattr(workers, "build_strategy", lambda *_: fake_strategy(0))
    monkeypatch.setattr(workers, "num_workers", lambda: 2)
    lines: list[str] = []
    # Alone: a handler of absl, which programs install, would print it.
    with log_to(lines.append, alone=True):
        workers.set_up_devices(TrainingConfig())
    assert lines == ["waiting for all 2 workers …"]
    assert capfd.readouterr() == ("", "")


def test_tensorfloat_32_is_restored_after_training() -> None:
    switch = tf.config.experimental.enable_tensor_float_32_execution
    enabled = tf.config.experimental.tensor_float_32_execution_enabled
    for before in (False, True):
        switch(before)
        with pytest.raises(OSError), workers.restore_tf32():
            switch(not before)
            raise OSError
        assert enabled() is before


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
    with socket.socket() as busy:
        busy.bind(("localhost", port))
        busy.listen()
        assert workers.free_ports(1) == [other]
        with pytest.raises(UserError, match=r"2 free .* have only 1\."):
            workers.free_ports(2)


def has_handler(number: int) -> bool:
    """Returns whether the kernel has a handler for a signal."""
    status = Path("/proc/self/status").read_text()
    (caught,) = (line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_sigterm_ends_a_worker_that_waits(monkeypatch) -> None:
    """A handler that native code sets, as TensorFlow does, is removed."""

    def take_sigterm(*_):
        faulthandler.register(signal.SIGTERM, file=2)
        assert has_handler(signal.SIGTERM)
        return fake_strategy(0)

    monkeypatch.setattr(workers, "build_strategy", take_sigterm)
    try:
        workers.set_up_devices(TrainingConfig())
        assert has_handler(signal.SIGTERM) == callable(signal.getsignal(signal.SIGTERM))
    finally:
        faulthandler.unregister(signal.SIGTERM)
