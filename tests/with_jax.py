"""Python programs on Keras' JAX backend, in processes of their own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


def run_with_jax(*arguments: str, devices: int = 1) -> subprocess.CompletedProcess:
    """Runs Python with some arguments; skips the test if JAX is not installed.

    Args:
        *arguments: Of Python: "-m" and a module, or a script, and their arguments.
        devices: Number of simulated devices.
    """
    if importlib.util.find_spec("jax") is None:
        pytest.skip('no JAX, which is optional: pip install -e ".[jax]"')
    flag = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "KERAS_BACKEND": "jax", "XLA_FLAGS": flag},
        capture_output=True,
        text=True,
        check=False,
    )
