"""Watchdog: reports each silence once, with all stacks, and stops nothing."""

import threading
import time

import pytest

from t2t_keras.training.loop import Watchdog

SILENCE = 0.2


def wait_until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def reports(path) -> int:
    """Returns the number of reports, by the stack that follows each warning."""
    text = path.read_text() if path.exists() else ""
    return text.count("in the_function_that_hangs")


def the_function_that_hangs(stacks, stream) -> None:
    with Watchdog(SILENCE, stacks, stream) as dog:
        wait_until(lambda: reports(stacks) == 1)
        time.sleep(3 * SILENCE)
        assert stacks.read_text().count("warning: ") == 1
        dog.heartbeat()
        wait_until(lambda: reports(stacks) == 2)


def test_each_silence_is_reported_once(tmp_path) -> None:
    stacks, errors = tmp_path / "stacks.txt", tmp_path / "stderr"
    with open(errors, "w") as stream:
        the_function_that_hangs(stacks, stream)
    for path in (stacks, errors):
        text = path.read_text()
        assert text.count("warning: ") == reports(path) == 2
        assert "for 0.00333 minutes. Training is not stopped." in text
        assert "stacks.txt" in text


def test_heartbeats_keep_it_quiet(tmp_path) -> None:
    # Longer than any pause on a busy machine.
    with Watchdog(20.0, tmp_path / "stacks.txt") as dog:
        for _ in range(5):
            dog.heartbeat()
            time.sleep(0.01)
    assert list(tmp_path.iterdir()) == []


def is_watched() -> bool:
    return "watchdog" in [thread.name for thread in threading.enumerate()]


def test_it_ends_with_the_context(tmp_path) -> None:
    with pytest.raises(KeyError), Watchdog(20.0, tmp_path / "stacks.txt"):
        assert is_watched()
        raise KeyError
    assert not is_watched()
    assert list(tmp_path.iterdir()) == []


def test_no_seconds_are_no_watch(tmp_path) -> None:
    with Watchdog(0, tmp_path / "stacks.txt"):
        time.sleep(SILENCE)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_no_error(tmp_path) -> None:
    errors = tmp_path / "stderr"
    with open(errors, "w") as stream, Watchdog(SILENCE, tmp_path, stream) as dog:
        for count in (1, 2):
            wait_until(lambda n=count: errors.read_text().count("in wait_until") >= n)
            dog.heartbeat()
