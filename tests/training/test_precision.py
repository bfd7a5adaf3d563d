"""Mixed precision against float32 over a short run; the switch for TensorFloat-32."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.training.workers import set_up_devices
from t2t_keras.settings.flags import config_from_flagfile
from tests.training.steppers import build_stepper, values
from tests.training.toy_models import random_batch

STEPS = 12
# Tolerance of the loss per token, in nats; the loss falls by ten times as much.
BAND = 0.05


def losses_of(policy: str, jit_compile: bool) -> np.ndarray:
    def make_model() -> Transformer:
        sizes = {"num_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 2}
        model = Transformer(29, **sizes, dropout_rate=0.1, dtype=policy)
        model.build()
        return model

    model, optimizer, stepper = build_stepper(
        make_model, 1, jit_compile, dynamic_loss_scale=policy == "mixed_float16"
    )
    losses = []
    for step in range(STEPS):
        sums = stepper.train(random_batch(6, 7, 29, seed=step % 3))
        assert float(sums.skipped) == 0.0
        losses.append(float(sums.losses.loss_sum) / float(sums.losses.token_count))
    assert optimizer.applied.numpy() == STEPS
    assert {str(weight.dtype) for weight in values(model.weights)} == {"float32"}
    return np.array(losses)


@pytest.fixture(scope="module")
def whole() -> np.ndarray:
    losses = losses_of("float32", jit_compile=False)
    assert losses[:3].mean() - losses[-3:].mean() > 10 * BAND
    return losses


@pytest.mark.parametrize(
    ("policy", "jit_compile"),
    [
        pytest.param("mixed_bfloat16", False, marks=pytest.mark.slow),
        pytest.param("mixed_bfloat16", True, marks=pytest.mark.release),
        pytest.param("mixed_float16", False, marks=pytest.mark.slow),
        pytest.param("mixed_float16", True, marks=pytest.mark.release),
    ],
)
def test_the_loss_falls_as_in_float32(whole, policy, jit_compile) -> None:
    losses = losses_of(policy, jit_compile)
    assert np.abs(losses - whole).max() < BAND
    assert np.abs(losses - whole).max() > 1e-5  # the precision did differ


@pytest.mark.parametrize(("flag", "enabled"), [("", True), ("--notf32", False)])
def test_the_switch_of_tensorfloat_32_reaches_tensorflow(
    tmp_path, flag, enabled
) -> None:
    flagfile = tmp_path / "run.flags"
    flagfile.write_text(f"{flag}\n")
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(not enabled)
    try:
        set_up_devices(config_from_flagfile(flagfile).training)
        assert tf.config.experimental.tensor_float_32_execution_enabled() is enabled
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
