"""Locks on folders, by the library filelock; each ends with its process.

They are locks of the kernel (`flock`), so a killed process leaves none behind. On NFS
they work across hosts if the server and both mounts support locking; if a mount keeps
its locks local, hosts do not see each other's.
"""

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor

from t2t_keras.errors import UserError
from t2t_keras.files.signals import undo_if_interrupted

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def reserve_folder(folder: Path, lock_name: str, *, refusal: str) -> Iterator[None]:
    """Reserves a folder for this process until the block ends.

    The lock is on a file in the folder that names its owner. If the file system has
    no locks, a warning is logged and nothing is locked.

    Args:
        folder: Created if missing. If it was created and is still empty at the end, it
            is removed.
        lock_name: Name of the lock file, which is removed at the end.
        refusal: Template of the error message, with fields {folder} and {owner}.

    Raises:
        UserError: If another process has reserved the folder.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / lock_name
    lock = None
    try:
        lock = _acquire(path)
    except Timeout:
        text = refusal.format(folder=folder, owner=_read_owner(path))
        raise UserError(text) from None
    except OSError as error:
        logger.warning(
            f"{path} cannot be locked: {error.strerror}. Make sure that no "
            f"other process uses {folder}."
        )
    if lock is None:
        yield
        return

    def remove() -> None:
        path.unlink(missing_ok=True)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()

    try:
        # The file is removed while still locked: a process that opened it in the
        # meantime sees that its name is missing, and creates another.
        with undo_if_interrupted(remove):
            yield
    finally:
        lock.release()


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Locks a folder itself, without a file in it; yields whether that succeeded.

    It fails if another process or thread has the lock, or if the file system has no
    locks on folders (NFS has none).

    Args:
        folder: The folder, which must exist.
        wait: Whether to wait until another owner releases the lock.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            is_locked = lock_descriptor(descriptor, blocking=wait)
        except OSError:
            is_locked = False
        yield is_locked
    finally:
        os.close(descriptor)


def _acquire(path: Path) -> FileLock:
    """Locks a file, writes this process as its owner, and returns the lock.

    Raises:
        Timeout: If another process has it.
        OSError: If the file cannot be opened, locked or written.
    """
    # No soft lock, which would outlive a killed process.
    lock = FileLock(
        path, blocking=False, fallback_to_soft=False, on_acquired=_write_owner
    )
    while True:
        try:
            lock.acquire()
        except Timeout:
            # A missing file has no owner: it was removed after we opened it and before
            # we locked it.
            if path.exists():
                raise
        else:
            return lock


def _write_owner(descriptor: int) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _read_owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not written its name yet"
