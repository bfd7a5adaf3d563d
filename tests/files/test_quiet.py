"""Quiet start-up: output of native code is withheld, and shown after a failure."""

import os

import pytest

from t2t_keras.files.quiet import quiet_start_up


@pytest.fixture(autouse=True)
def default_log_level(monkeypatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")


def noise() -> None:
    os.write(2, b"from native code\n")


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
    assert capfd.readouterr().err == "from native code\nafter\n"


def test_it_is_shown_at_the_most_verbose_log_level(capfd, monkeypatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with quiet_start_up():
        noise()
    assert capfd.readouterr().err == "from native code\n"


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
