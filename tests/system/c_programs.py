"""Building and running the C programs of examples/c."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "examples" / "c"


def build_c(folder: Path) -> Path:
    """Builds the programs in `folder` and returns it."""
    missing = [name for name in ("make", "gcc", "g++") if not shutil.which(name)]
    if missing:
        pytest.skip(f"{' and '.join(missing)}: missing, needed to build examples/c")
    # The usual linker takes four times as long for TensorFlow's library of a gigabyte.
    gold = ["LDFLAGS=-fuse-ld=gold"] if shutil.which("ld.gold") else []
    _make("all", f"BUILD={folder}", *gold)
    return folder


def run_c(
    program: Path, directory: Path, *arguments: str, stdin: bytes = b""
) -> tuple[int, bytes, list[str]]:
    """Returns a program's exit status, its output, and its errors and warnings.

    TensorFlow's log lines are left out.
    """
    done = subprocess.run(
        [program, directory, _make("tokenizer"), *arguments],
        input=stdin,
        capture_output=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        check=False,
    )
    lines = done.stderr.decode().splitlines()
    messages = [line for line in lines if line.startswith(("error: ", "warning: "))]
    return done.returncode, done.stdout, messages


def _make(target: str, *variables: str) -> str:
    done = subprocess.run(
        ["make", "-s", "-C", SOURCES, target, f"PYTHON={sys.executable}", *variables],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
