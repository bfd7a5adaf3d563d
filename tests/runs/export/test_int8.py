"""Exports of int8 products, and the advice where TensorFlow has none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments, onednn):
    """Runs Python with oneDNN, on CPUs without VNNI, too; or without it.

    TensorFlow reads the variable when it is imported. It changes rounding everywhere,
    so the other tests run as users do.
    """
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int8_model_cases.py", "int8_export_cases.py"])
def test_int8_with_onednn(name):
    """Files that pytest does not collect by itself."""
    cases = Path(__file__).with_name(name)
    options = "-q", "-n0", "-p", "no:cacheprovider"
    result = run("-m", "pytest", *options, cases, onednn="1")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_without_onednn_there_is_advice():
    program = (
        "from t2t_keras.runs.export import int8_model; int8_model.check_products()"
    )
    result = run("-c", program, onednn="0")
    assert "UserError" in result.stderr
    assert "TF_ENABLE_ONEDNN_OPTS=1 is in the environment" in result.stderr
