"""Folders that bear their name only when they are whole, and outlast a power cut.

`NAME` is written as `.NAME.tmp` beside it and renamed. What a rename makes visible
may be on no disk yet: so contents are synchronized before it, and names after it.
"""

import errno
import glob
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from t2t_keras.files.signals import undo_if_interrupted


def write_folder(target: Path, write: Callable[[Path], object]) -> None:
    """Writes a folder whole or not at all.

    One that has the name already is there until the new one is whole, and moved
    aside only for the moment between two renames. If the process is killed in that
    moment, `put_back` gives it its name back.

    Args:
        target: Its place; the folder above is made if it is not there.
        write: Called with an empty folder, to write files into.

    Raises:
        OSError: If it could not be written. Nothing half-written stays behind.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    put_back(target.parent, glob.escape(target.name))
    temporary = target.parent / f".{target.name}.tmp"
    aside = target.parent / f".{target.name}.old"

    def undo() -> None:
        put_back(target.parent, glob.escape(target.name))
        remove(temporary)

    remove(temporary)
    with undo_if_interrupted(undo):
        temporary.mkdir()
        write(temporary)
        for path in (*temporary.iterdir(), temporary):
            synchronize(path)
        if target.exists():
            target.rename(aside)
        temporary.rename(target)
        synchronize(target.parent)


def write_file(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all.

    Args:
        path: Its place; a file that is there is replaced once the new one is on disk.
        content: What to write.

    Raises:
        OSError: If it could not be written. The old file is then unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with undo_if_interrupted(lambda: temporary.unlink(missing_ok=True)):
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def put_back(directory: Path, names: str) -> None:
    """Gives folders that were moved aside their names, if no others have them.

    Args:
        directory: Where they lie.
        names: A pattern of their names.
    """
    for aside in directory.glob(f".{names}.old"):
        target = directory / aside.name.removeprefix(".").removesuffix(".old")
        if target.exists():
            remove(aside)
        else:
            aside.rename(target)


def delete(path: Path) -> None:
    """Deletes a folder, which loses its name before it loses its files.

    A process killed in between leaves nothing that passes for a whole one.
    """
    dying = path.parent / f".{path.name}.tmp"
    remove(dying)
    path.rename(dying)
    remove(dying)


def remove(path: Path) -> None:
    """Removes a folder if it is there."""
    shutil.rmtree(path, ignore_errors=True)


def synchronize(path: Path) -> None:
    """Waits until a file's contents, or the names in a folder, are on the disk.

    Some file systems know no waiting for a folder; there nothing is done.

    Raises:
        OSError: If they cannot be written there.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF) or not path.is_dir():
            raise
    finally:
        os.close(handle)
