"""Expensive test files, made once and shared by all pytest-xdist workers."""

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def make_once(
    temporary: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]
) -> Made:
    """Returns the result of `make`, which only one process of the session calls.

    The others wait for it and unpickle its result. Tests must not change the files.

    Args:
        temporary: pytest's fixture `tmp_path_factory`.
        name: Name of the folder.
        make: Fills an empty folder and returns something that can be pickled.
    """
    base = temporary.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # each worker has its own folder in it
    folder, result = base / name, base / f"{name}.pickle"
    with open(base / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            # Left by a process that was killed in `make`.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            result.write_bytes(pickle.dumps(make(folder)))
        return pickle.loads(result.read_bytes())
