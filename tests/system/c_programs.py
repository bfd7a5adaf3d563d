"""The programs of examples/c: built from their sources, and run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "examples" / "c"


def build_c(folder: Path) -> Path:
    """Builds the programs, and returns where they are: `folder`."""
    missing = [name for name in ("make", "gcc", "g++") if not shutil.which(name)]
    if missing:
        pytest.skip(f"{' and '.join(missing)}: not there to build examples/c with")
    _make("all", f"BUILD={folder}")
    return folder


def run_c(
    program: Path, directory: Path, *arguments: str, stdin: bytes = b""
) -> tuple[int, bytes, list[str]]:
    """Returns a program's status, its output, and what it says besides.

    TensorFlow's own lines are left out of the latter.
    """
    done = subprocess.run(
        [program, directory, _make("tokenizer"), *arguments],
        input=stdin,
        capture_output=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        check=False,
    )
    lines = done.stderr.decode().splitlines()
    said = [line for line in lines if line.startswith(("error: ", "warning: "))]
    return done.returncode, done.stdout, said


def _make(target: str, *variables: str) -> str:
    done = subprocess.run(
        ["make", "-s", "-C", SOURCES, target, f"PYTHON={sys.executable}", *variables],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
