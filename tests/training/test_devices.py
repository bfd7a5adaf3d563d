"""Choices by device: both kinds make the same updates, except for rounding."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.runs import models
from t2t_keras.runs.training import optimization
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.training.devices import choices_for, current_device
from t2t_keras.typing import (
    DECODER_INPUT_TOKENS,
    DECODER_LOSS_WEIGHTS,
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
)


def test_a_gpu_has_more_logits_at_once_and_bfloat16_by_xla() -> None:
    cpu, gpu = choices_for("cpu"), choices_for("gpu")
    assert gpu.logits_at_once > cpu.logits_at_once
    assert gpu.xla_for_bfloat16 and not cpu.xla_for_bfloat16
    assert gpu.compiles_ahead and not cpu.compiles_ahead
    assert current_device() == "cpu"
    with pytest.raises(ValueError, match=r'must be "cpu" or "gpu"\. Received: tpu'):
        choices_for("tpu")


def test_the_step_for_a_gpu_makes_the_same_updates() -> None:
    random = np.random.default_rng(3)
    target = random.integers(3, 23, (5, 7), "int32")
    batch = {
        ENCODER_INPUT_TOKENS: random.integers(3, 23, (5, 6), "int32"),
        DECODER_INPUT_TOKENS: np.pad(target, [(0, 0), (1, 0)])[:, :-1],
        DECODER_TARGET_TOKENS: target,
        DECODER_LOSS_WEIGHTS: (random.random((5, 7)) < 0.7).astype("float32"),
    }
    config = ExperimentConfig(
        model=ModelConfig(num_layers=1, d_model=8, d_ff=12, num_heads=2),
        training=TrainingConfig(warmup_steps=2, jit_compile=False),
    )
    first = models.build_model(config, 23)
    norms = []
    for device in ("cpu", "gpu"):
        model = models.build_model(config, 23)
        for ours, theirs in zip(model.weights, first.weights, strict=True):
            ours.assign(theirs)
        stepper = optimization.build_stepper(
            config.training,
            model,
            optimization.build_optimizer(config, model),
            tf.distribute.get_strategy(),
            device=device,
        )
        updates = [stepper.train(batch) for _ in range(3)]
        norms.append([float(update.gradient_norm) for update in updates])
    np.testing.assert_allclose(*norms, rtol=1e-5)
    assert norms[0][0] != norms[0][2]
