"""Exports of int8 products, and the advice where TensorFlow has none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import with_onednn


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int8_model_cases.py", "int8_export_cases.py"])
def test_int8_with_onednn(name):
    with_onednn.check(Path(__file__).with_name(name))


@pytest.mark.slow
def test_without_onednn_there_is_advice():
    program = (
        "from t2t_keras.runs.export import int8_model; int8_model.check_products()"
    )
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert "UserError" in result.stderr
    assert "TF_ENABLE_ONEDNN_OPTS=1 is in the environment" in result.stderr
