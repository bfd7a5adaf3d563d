"""The training step of this project, as `python -m t2t_keras.train` makes it."""

import numpy as np
import tensorflow as tf

from benchmarks.training_step.measured import (
    DROPOUT,
    HEADS,
    INNER,
    LAYERS,
    SMOOTHING,
    VOCABULARY,
    WIDTH,
    arguments,
    report,
)
from t2t_keras import experiment
from t2t_keras.config import ExperimentConfig, ModelConfig, TrainingConfig


def main() -> None:
    """Times steps on one batch."""
    given = arguments(precision=["float32", "bfloat16"], xla=["on", "off"])
    config = ExperimentConfig(
        model=ModelConfig(
            num_layers=LAYERS,
            d_model=WIDTH,
            d_ff=INNER,
            num_heads=HEADS,
            dropout_rate=DROPOUT,
        ),
        training=TrainingConfig(
            label_smoothing=SMOOTHING,
            precision=given.precision,
            jit_compile=given.xla == "on",
        ),
    )
    model = experiment.build_model(config, VOCABULARY)
    optimizer = experiment.build_optimizer(config, model)
    strategy = tf.distribute.get_strategy()
    stepper = experiment.build_stepper(config.training, model, optimizer, strategy)
    shape = (given.rows, given.length)
    random = np.random.default_rng(0)
    source, target = (random.integers(3, VOCABULARY, shape, "int32") for _ in "st")
    shifted = np.zeros_like(target)
    shifted[:, 1:] = target[:, :-1]
    batch = {
        "encoder_input_tokens": source,
        "decoder_input_tokens": shifted,
        "decoder_target_tokens": target,
        "decoder_loss_weights": np.ones(shape, "float32"),
    }

    def step() -> float:
        losses = stepper.train(batch).losses
        return float(losses.loss_sum) / float(losses.token_count)

    report(step, target.size, given.steps)


if __name__ == "__main__":
    main()
