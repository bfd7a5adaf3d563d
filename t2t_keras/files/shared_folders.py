"""Folders that several processes may make at once, also on several hosts.

Each writes its own under a name of its own. The first that is complete gets the name;
the others are dropped, so all must have the same content.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.files.atomic import name_in_errors, publish_folder, remove
from t2t_keras.files.locks import lock_folder
from t2t_keras.files.signals import undo_if_interrupted


@contextlib.contextmanager
def folder_made_once(target: Path) -> Iterator[Path]:
    """Yields an empty folder that becomes `target` at the end, unless that exists.

    Raises:
        OSError: If the folder cannot be written. Nothing is left then.
    """
    # In containers, all processes may have the same number.
    name = f".{target.name}.{socket.gethostname()}.{os.getpid()}.tmp"
    temporary = target.with_name(name)
    remove(temporary)  # of a killed process
    with (
        name_in_errors(target),
        undo_if_interrupted(lambda: remove(temporary)),
        contextlib.ExitStack() as stack,
    ):
        _make_locked(temporary, stack)
        yield temporary
        try:
            publish_folder(temporary, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            remove(temporary)


def _make_locked(path: Path, stack: contextlib.ExitStack) -> None:
    """Makes a folder, and locks it before another process can have swept it away."""
    while True:
        path.mkdir()
        with contextlib.suppress(FileNotFoundError):
            stack.enter_context(lock_folder(path, wait=True))
            if path.exists():
                return


def sweep(directory: Path, names: str) -> None:
    """Removes folders that killed processes left unfinished.

    Those of running processes are locked, and stay. Where the file system cannot lock
    folders, all stay.

    Args:
        directory: Where they are.
        names: Pattern of the names that they were to get.
    """
    for stale in directory.glob(f".{names}.tmp"):
        with contextlib.suppress(FileNotFoundError), lock_folder(stale) as is_locked:
            if is_locked:
                remove(stale)
