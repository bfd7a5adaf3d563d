"""Files that are made once for all processes of a test session."""

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def made_once(
    temporary: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]
) -> Made:
    """Returns what `make` returns, which only one process of the session calls.

    The others wait for it and unpickle the same. Tests must not change the files.

    Args:
        temporary: pytest's fixture `tmp_path_factory`.
        name: Of the folder.
        make: Fills an empty folder and returns something that can be pickled.
    """
    base = temporary.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # each worker has a folder of its own in that
    folder, result = base / name, base / f"{name}.pickle"
    with open(base / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            # Of a process that was killed while it made them.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            result.write_bytes(pickle.dumps(make(folder)))
        return pickle.loads(result.read_bytes())
