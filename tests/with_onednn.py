"""Runs tests in a process whose TensorFlow uses oneDNN, on CPUs without VNNI, too.

TensorFlow reads the variable when it is imported. It changes rounding everywhere, so
the other tests run as users do.
"""

import os
import subprocess
import sys
from pathlib import Path


def check(cases: Path) -> None:
    """Raises `AssertionError` with the output unless all tests of a file pass."""
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}
    # The file's name is not one that pytest collects by itself.
    options = "-q", "-n0", "-p", "no:cacheprovider"
    command = [sys.executable, "-m", "pytest", *options, cases]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
