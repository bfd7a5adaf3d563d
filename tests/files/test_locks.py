"""Two processes, one model directory."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.locks import run_lock

HOLD = """
import sys, time
from pathlib import Path
from t2t_keras.files.locks import run_lock
with run_lock(Path(sys.argv[1]), print):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock."""
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
    with (
        pytest.raises(UserError) as refused,
        run_lock(tmp_path / "run", pytest.fail),
    ):
        pytest.fail("two have the lock")
    text = str(refused.value)
    assert f"process {holder.pid} on {socket.gethostname()}, since 20" in text
    assert "--model_dir" in text
    # To be refused disturbs nobody.
    test = run_lock(tmp_path / "run", pytest.fail)
    with pytest.raises(UserError, match="Another process trains"):
        test.__enter__()


def test_a_killed_process_has_no_lock_any_more(tmp_path, holder) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    lock = tmp_path / "run" / ".lock"
    assert lock.exists()
    with run_lock(tmp_path / "run", pytest.fail):
        assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_a_folder_is_left_as_it_was_found(tmp_path) -> None:
    for path in (tmp_path, tmp_path / "new"):
        with run_lock(path, pytest.fail):
            assert (path / ".lock").exists()
        assert list(tmp_path.iterdir()) == []
    with run_lock(tmp_path / "new", pytest.fail):
        (tmp_path / "new" / "train.flags").write_text("")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["train.flags"]
    with pytest.raises(KeyError), run_lock(tmp_path / "other", pytest.fail):
        raise KeyError
    assert not (tmp_path / "other").exists()


def test_a_lock_whose_file_was_deleted_is_taken_anew(tmp_path, monkeypatch) -> None:
    """Between opening and locking, the owner before may delete the file."""
    flock, opened = fcntl.flock, []

    def flock_later(file, how):
        if not opened:
            (tmp_path / ".lock").unlink()
        opened.append(file)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", flock_later)
    with run_lock(tmp_path, pytest.fail):
        assert len(opened) == 2
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()


def test_another_without_a_name_is_still_another(tmp_path) -> None:
    with open(tmp_path / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(UserError, match="has not written its name yet"),
            run_lock(tmp_path, pytest.fail),
        ):
            pytest.fail("two have the lock")


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch) -> None:
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    said: list[str] = []
    start = time.monotonic()
    with run_lock(tmp_path, said.append):
        assert time.monotonic() - start < 60
    assert len(said) == 1
    assert "cannot be locked: No locks available" in said[0]
