"""One process at a time trains in a model directory."""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from t2t_keras.errors import UserError
from t2t_keras.files.signals import undo_if_interrupted


@contextlib.contextmanager
def run_lock(
    model_dir: Path, say: Callable[[str], object], name: str = ".lock"
) -> Iterator[None]:
    """Keeps a model directory to this process while the context lasts.

    The lock is the kernel's, on a file that says who has it: it is gone with the
    process, however that ends, so there is never a stale one to remove by hand. On
    NFS it holds across hosts if the server and both mounts do locking; where they
    do not, the two hosts do not see each other's locks. Where the file system has
    no locks at all, a warning says so and nothing is kept.

    Args:
        model_dir: The directory. It is made if need be, and taken away again at the
            end if nothing else was put there.
        say: Called with a warning.
        name: Of the file.

    Raises:
        UserError: If another process has the lock; it is named.
    """
    is_new = not model_dir.exists()
    model_dir.mkdir(parents=True, exist_ok=True)
    path = model_dir / name
    try:
        file = _locked(path)
    except BlockingIOError:
        raise UserError(_refusal(model_dir, path)) from None
    except OSError as error:
        say(
            f"warning: {path} cannot be locked: {error.strerror}. See to it that no "
            "other process trains here."
        )
        yield
        return

    def release() -> None:
        # While it is still locked: whoever opened it meanwhile is told, and takes a
        # new one.
        path.unlink(missing_ok=True)
        file.close()
        if is_new:
            with contextlib.suppress(OSError):
                model_dir.rmdir()

    with undo_if_interrupted(release):
        yield


def _locked(path: Path) -> IO[str]:
    """Returns the file of that name, opened, locked and with our name in it.

    Raises:
        BlockingIOError: If another process has it.
        OSError: If it cannot be opened or locked.
    """
    while True:
        file = open(path, "a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(path, file):
                file.truncate(0)
                json.dump(_who(), file)
                file.flush()
                return file
        except BaseException:
            file.close()
            raise
        # Its last owner deleted it between our opening and our locking it.
        file.close()


def _is_there(path: Path, file: IO[str]) -> bool:
    """Returns whether the name still means the file that is open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _who() -> dict[str, object]:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": since}


def _refusal(model_dir: Path, path: Path) -> str:
    try:
        who = json.loads(path.read_text(encoding="utf-8"))
        other = f"process {who['pid']} on {who['host']}, since {who['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        other = "a process that has not written its name yet"
    return (
        f"Another process trains in {model_dir}: {other}. Two would overwrite each "
        "other's checkpoints. Wait for it or stop it, or give another --model_dir."
    )
