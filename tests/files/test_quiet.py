"""Quiet start-up: output of native code is withheld, and shown after a failure."""

import os
import subprocess
import sys
import threading

import pytest

from t2t_keras.files.quiet import quiet_start_up


@pytest.fixture(autouse=True)
def default_log_level(monkeypatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")


NOISE = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to\n"
    "I0000 00:00:1795556541.708086    4008 cudart_stub.cc:31] Could not find cuda\n"
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild\n"
    "2026-11-24 20:46:01.123456: E external/local_xla/xla/cuda_dnn.cc:7] Unable\n"
    "normalizer.cc(52) LOG(INFO) precompiled_charsmap is empty.\n"
)


def noise() -> None:
    os.write(2, NOISE.encode())


def test_what_is_printed_inside_is_held_back(capfd) -> None:
    with quiet_start_up():
        noise()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_it_is_shown_if_something_fails(capfd) -> None:
    with pytest.raises(ImportError, match="no such library"), quiet_start_up():
        noise()
        raise ImportError("no such library")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == NOISE + "after\n"


def test_it_is_shown_at_the_most_verbose_log_level(capfd, monkeypatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with quiet_start_up():
        noise()
    assert capfd.readouterr().err == NOISE


def test_standard_output_is_left_alone(capfd) -> None:
    with quiet_start_up():
        os.write(1, b"an answer\n")
    assert capfd.readouterr().out == "an answer\n"


def test_no_file_stays_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with quiet_start_up():
            noise()
    assert len(os.listdir("/proc/self/fd")) == before


def test_lines_of_others_are_printed_at_the_end(capfd) -> None:
    def other() -> None:
        os.write(2, b"epoch 3\nE1: no such column: 4]\n")

    with quiet_start_up():
        noise()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        noise()
        os.write(2, b"no line end")
    assert capfd.readouterr().err == "epoch 3\nE1: no such column: 4]\nno line end"


def test_a_block_inside_another_or_beside_it_leaves_standard_error_whole(capfd) -> None:
    first, second = quiet_start_up(), quiet_start_up()
    first.__enter__()
    second.__enter__()
    noise()
    # Redirections that begin and end crosswise would leave the first one's file.
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_a_program_without_standard_error() -> None:
    for change in ("sys.stderr = None", "os.close(2)", "sys.stderr.close()"):
        code = f"import os, sys; {change}; from t2t_keras import UserError; print(7)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "7\n"), (change, done.stderr)
