"""Paths of users: "~" for the home folder, and those that TensorFlow cannot read."""

import os
import re
from pathlib import Path

from t2t_keras.errors import UserError

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
    return Path(os.path.expanduser(path))


def check_readable_by_tensorflow(path: str | os.PathLike[str], name: str = "") -> None:
    """Raises `UserError` if TensorFlow could not read a checkpoint or export here.

    Args:
        path: A folder with checkpoints or exports, which need not exist.
        name: What the path is of, such as a flag.
    """
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
