"""Paths of users: "~" for the home folder, URLs, and what TensorFlow cannot read."""

import os
import re
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.remote import as_path, is_url

# TensorFlow looks for a checkpoint with its path as a pattern, in which no character
# can be escaped. "*" and "?" match themselves, but brackets reach across folders.
_PATTERN = re.compile(r"\[[^\]]*(\]|-/)|\\")


def expand(path: str | os.PathLike[str]) -> Path:
    """Returns a path with the home folder in place of a "~" at its beginning.

    Raises:
        UserError: If this is no path.
    """
    if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path):
        raise UserError(f"A path must be a text or a Path. Received: {path!r:.60}")
    return as_path(os.path.expanduser(path))


def absolute(path: str | os.PathLike[str]) -> str:
    """Returns the absolute path of a file, as `expand`; a URL is unchanged.

    Raises:
        UserError: If this is no path.
    """
    expanded = expand(path)
    return os.fspath(path) if is_url(expanded) else os.path.abspath(expanded)


def check_on_file_system(path: str | os.PathLike[str], name: str = "") -> None:
    """Raises `UserError` if a path of checkpoints or exports is on an object store.

    Args:
        path: The path.
        name: What it is of, such as a flag.
    """
    if is_url(path):
        raise UserError(
            f"{name or 'The path'} {os.fspath(path)} is on an object store. "
            "Checkpoints and exports need renames and locks, which it does not have: "
            "give a folder of a file system, and copy it afterwards."
        )


def check_readable_by_tensorflow(path: str | os.PathLike[str], name: str = "") -> None:
    """Raises `UserError` if TensorFlow could not read a checkpoint or export here.

    Args:
        path: A folder with checkpoints or exports, which need not exist.
        name: What the path is of, such as a flag.
    """
    check_on_file_system(path, name)
    text = os.fspath(path)
    if found := _PATTERN.search(f"{text}/"):
        fault = f"has {found[0]}, which TensorFlow takes for a pattern of names"
    elif text.encode("utf-8", "replace") != os.fsencode(text):  # as the locale has it
        fault = "is not UTF-8, as TensorFlow's paths must be"
    else:
        return
    raise UserError(
        f"{name or 'The path'} {text} {fault}, so no checkpoint or export could be "
        "read from there. Rename the folder, or give one without backslashes and "
        "brackets in its path."
    )
