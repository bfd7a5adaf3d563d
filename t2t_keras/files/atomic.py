"""Atomic writes of files and folders, and SHA-256 digests of their contents.

A file or folder is complete or does not exist: it is written under a temporary name
next to the target, synchronized and renamed, so it also survives a power failure. A
renamed file may not be on the disk yet, so contents are synchronized before the rename,
and names after it. No other module renames.
"""

import contextlib
import errno
import glob
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from t2t_keras.files.signals import undo_if_interrupted


@contextlib.contextmanager
def atomic_file(path: Path, mode: str = "wb", **settings: Any) -> Iterator[IO[Any]]:
    """Yields an open file that replaces `path` at the end of the block.

    Args:
        path: The target. Its folder must exist.
        mode: Mode of `open`, for writing.
        **settings: Other arguments of `open`: encoding and line ends.

    Raises:
        OSError: If the file cannot be written. After this and any other error or
            signal, an existing file is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with undo_if_interrupted(lambda: temporary.unlink(missing_ok=True)):
        with open(temporary, mode, **settings) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(temporary, path)


def write_file(path: Path, content: bytes) -> None:
    """Writes a file atomically, or raises `OSError`."""
    with atomic_file(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8 atomically; creates the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode())


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yields an empty folder that replaces `target` at the end of the block.

    An existing folder of that name is moved aside only between two renames. If the
    process is killed in that moment, `restore_folders` restores it. Only one process
    at a time may write the folder.

    Args:
        target: The folder; its parents are created.

    Raises:
        OSError: If the folder cannot be written. After this and any other error or
            signal, an existing folder is unchanged.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    restore_folders(target.parent, glob.escape(target.name))
    temporary = target.parent / f".{target.name}.tmp"
    aside = target.parent / f".{target.name}.old"

    def undo() -> None:
        restore_folders(target.parent, glob.escape(target.name))
        remove(temporary)

    remove(temporary)
    with undo_if_interrupted(undo):
        temporary.mkdir()
        yield temporary
        _synchronize_tree(temporary)
        if target.exists():
            target.rename(aside)
        _rename(temporary, target)


def publish_folder(temporary: Path, target: Path) -> None:
    """Synchronizes the contents of a complete folder, then renames it to `target`.

    For writers with their own temporary folder, for example concurrent ones.

    Raises:
        OSError: If `target` exists and is not an empty folder.
    """
    _synchronize_tree(temporary)
    _rename(temporary, target)


def move_folder(path: Path, aside: Path) -> None:
    """Renames a folder, replacing an existing one."""
    remove(aside)
    _rename(path, aside)


def delete(path: Path) -> None:
    """Deletes a folder after renaming it.

    If the process is killed in between, no incomplete folder has the old name.
    """
    temporary = path.parent / f".{path.name}.tmp"
    remove(temporary)
    path.rename(temporary)
    remove(temporary)


def remove_leftovers(directory: Path, names: str) -> None:
    """Removes half-written and half-deleted folders that killed processes left.

    Args:
        directory: Parent of the folders that `atomic_folder` and `delete` handle.
        names: Pattern of their names.
    """
    restore_folders(directory, names)
    for stale in directory.glob(f".{names}.tmp"):
        remove(stale)


def restore_folders(directory: Path, names: str) -> None:
    """Restores the names of folders that were moved aside, unless they are in use.

    Args:
        directory: Parent of the folders.
        names: Pattern of their names.
    """
    for aside in directory.glob(f".{names}.old"):
        target = directory / aside.name.removeprefix(".").removesuffix(".old")
        if target.exists():
            remove(aside)
        else:
            aside.rename(target)


def remove(path: Path) -> None:
    """Removes a folder if it exists."""
    shutil.rmtree(path, ignore_errors=True)


def synchronize(path: Path) -> None:
    """Waits until a file's contents, or the names in a folder, are on the disk.

    Does nothing for a folder that its file system cannot synchronize, or that is
    writable but not readable.

    Raises:
        OSError: If writing to the disk fails.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():
            return
        raise
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF) or not path.is_dir():
            raise
    finally:
        os.close(handle)


def _synchronize_tree(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        synchronize(path)


def _rename(path: Path, target: Path) -> None:
    path.rename(target)
    synchronize(target.parent)


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's contents in hexadecimal, or raises `OSError`."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
