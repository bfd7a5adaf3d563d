"""Locks: two processes that use the same folder."""

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.locks import lock_folder, reserve_folder
from t2t_keras.files.logs import log_to

HOLD = """
import sys, time
from pathlib import Path
from t2t_keras.files.locks import reserve_folder
with reserve_folder(Path(sys.argv[1]), ".lock", refusal=""):
    print("locked", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def reserve(folder, log=pytest.fail):
    refusal = "{folder} is in use: {owner}."
    with log_to(log), reserve_folder(folder, ".lock", refusal=refusal):
        yield


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_second_is_refused_and_told_of_the_first(tmp_path, holder) -> None:
    run = tmp_path / "run"
    owner = rf"process {holder.pid} on {re.escape(socket.gethostname())}, since 20"
    # The second refusal shows that the first one did not release the lock.
    for _ in range(2):
        message = f"^{re.escape(str(run))} is in use: {owner}.*"
        with pytest.raises(UserError, match=message), reserve(run):
            pytest.fail("two processes hold the lock")


def test_a_killed_process_has_no_lock_any_more(tmp_path, holder) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    lock = tmp_path / "run" / ".lock"
    # The old entry is longer than the new one.
    lock.write_text(lock.read_text() + " " * 999 + "x")
    with reserve(tmp_path / "run"):
        assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_a_folder_is_left_as_it_was_found(tmp_path) -> None:
    for path in (tmp_path, tmp_path / "new"):
        with reserve(path):
            assert (path / ".lock").exists()
        assert list(tmp_path.iterdir()) == []
    with reserve(tmp_path / "new"):
        (tmp_path / "new" / "train.flags").write_text("")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["train.flags"]
    with pytest.raises(KeyError), reserve(tmp_path / "other"):
        raise KeyError
    assert not (tmp_path / "other").exists()


def test_a_lock_whose_file_was_deleted_is_taken_again(tmp_path, monkeypatch) -> None:
    """The previous owner may delete the file between opening and locking."""
    flock, opened = fcntl.flock, []

    def flock_later(file, how):
        if not opened:
            (tmp_path / ".lock").unlink()
        opened.append(file)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", flock_later)
    with reserve(tmp_path):
        assert len(opened) == 2
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()


def test_another_without_a_name_is_still_another(tmp_path) -> None:
    with open(tmp_path / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(UserError, match="has not written its name yet"),
            reserve(tmp_path),
        ):
            pytest.fail("two processes hold the lock")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_a_warning(
    tmp_path, monkeypatch, number
) -> None:
    def no_locks(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    warnings: list[str] = []
    start = time.monotonic()
    with reserve(tmp_path, warnings.append):
        assert time.monotonic() - start < 60
        with lock_folder(tmp_path) as is_locked:
            assert not is_locked
    (warning,) = warnings
    assert f"/.lock cannot be locked: {os.strerror(number)}. Make sure" in warning


def test_a_signal_removes_the_lock_file_and_the_folder(tmp_path) -> None:
    start = "from t2t_keras.files.signals import end_program_on_signal as e; e()\n"
    command = [sys.executable, "-c", start + HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_folder_itself_is_locked_once_and_without_a_file(tmp_path) -> None:
    with lock_folder(tmp_path) as is_locked, lock_folder(tmp_path) as again:
        assert (is_locked, again) == (True, False)
        assert list(tmp_path.iterdir()) == []
    with lock_folder(tmp_path) as is_locked:
        assert is_locked


def test_a_lock_on_a_folder_waits_where_it_is_told_to(tmp_path) -> None:
    order: list[str] = []

    def wait() -> None:
        with lock_folder(tmp_path, wait=True) as is_locked:
            order.append(f"second {is_locked}")

    second = threading.Thread(target=wait)
    with lock_folder(tmp_path):
        second.start()
        time.sleep(0.2)
        order.append("first")
    second.join()
    assert order == ["first", "second True"]
