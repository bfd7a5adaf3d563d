"""Atomic writes of files and folders, and SHA-256 digests of their contents.

A file or folder is complete or does not exist: it is written under a temporary name
next to the target, synchronized and renamed, so it also survives a power failure. A
renamed file may not be on the disk yet, so contents are synchronized before the rename,
and names after it. No other module renames.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from t2t_keras.files.signals import undo_if_interrupted

STANDARD_OUTPUT = "standard output"
"""Name of it in errors."""

_REMEDIES = MappingProxyType(
    {
        errno.ENOSPC: "Make room on its disk, or give a path on another",
        errno.EDQUOT: "Make room in your quota, or give a path on another disk",
        errno.EFBIG: "Raise the limit of file sizes, or give a path on another disk",
        errno.EROFS: "Give a path on a file system that is not read-only",
        errno.EIO: "Check the disk, or give a path on another",
    }
)
_LONGEST_NAME = 255  # bytes, of most file systems
_PARTIAL_WRITE = re.compile(r"\d+ requested and \d+ written")


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
    # In containers of several hosts, all processes may have the same number.
    temporary = _beside(path, f".{socket.gethostname()}.{os.getpid()}.tmp")
    with (
        name_in_errors(path),
        undo_if_interrupted(lambda: temporary.unlink(missing_ok=True)),
    ):
        with open(temporary, mode, **settings) as file:
            yield file
            file.flush()
            with contextlib.suppress(OSError):  # of a new file, or one of another user
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            os.fsync(file.fileno())
        _rename(temporary, path)


def _beside(path: Path, suffix: str) -> Path:
    """Returns a temporary path for a path, with another name if it were too long."""
    name = f".{path.name}{suffix}"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()}{suffix}"
    return path.with_name(name)


@contextlib.contextmanager
def name_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes errors name what is written in the block, not a temporary file or nothing.

    Errors of writing to an open file do not name it.
    """
    try:
        yield
    except OSError as error:
        if _PARTIAL_WRITE.fullmatch(str(error)):  # NumPy's, without the cause
            raise write_error(path, os.strerror(errno.ENOSPC)) from error
        temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.")
        unnamed = error.filename is None and error.errno in _REMEDIES
        if unnamed or str(error.filename).startswith(temporary):
            error.filename = os.fspath(path)
        raise


def write_error(path: str | os.PathLike[str], message: str) -> OSError:
    """Returns the error of the system that the message of native code has.

    Args:
        path: What was written.
        message: Such as TensorFlow's, which has the text of the error, not its number.
    """
    for number in errno.errorcode:
        if os.strerror(number) in message:
            return OSError(number, os.strerror(number), os.fspath(path))
    return OSError(errno.EIO, message, os.fspath(path))


def explain(error: OSError, use: str = "used") -> str:
    """Returns the path, the cause and the remedy of an error of files.

    Args:
        error: The error.
        use: What could not be done with the path.
    """
    if error.filename is None:
        return str(error)
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return (
            f"{error.filename} cannot be {use}: {error.strerror}. Check the path and "
            "its permissions."
        )
    return (
        f"{error.filename} cannot be written: {error.strerror}. {remedy}, and repeat "
        "the command. What was complete before is unchanged."
    )


def write_file(path: Path, content: bytes) -> None:
    """Writes a file atomically, or raises `OSError`."""
    with atomic_file(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8 atomically; creates the folders above it.

    Bytes of names of files that are not UTF-8 are escaped.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode(errors="backslashreplace"))


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
    temporary, aside = _beside(target, ".tmp"), _beside(target, ".old")

    def undo() -> None:
        _restore(aside, target)
        remove(temporary)

    undo()  # of a process that was killed
    with name_in_errors(target), undo_if_interrupted(undo):
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
    temporary = _beside(path, ".tmp")
    remove(temporary)
    path.rename(temporary)
    remove(temporary)


def remove_leftovers(directory: Path, names: str) -> None:
    """Removes half-written or half-deleted folders whose names match a pattern."""
    restore_folders(directory, names)
    for stale in directory.glob(f".{names}.tmp"):
        remove(stale)


def restore_folders(directory: Path, names: str) -> None:
    """Restores the names of folders that were moved aside, or removes these.

    They are removed where the name, which matches a pattern, is in use again.
    """
    for aside in directory.glob(f".{names}.old"):
        name = aside.name.removeprefix(".").removesuffix(".old")
        _restore(aside, directory / name)


def _restore(aside: Path, target: Path) -> None:
    if target.exists():
        remove(aside)
    elif aside.exists():
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
