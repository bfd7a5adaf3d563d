"""The training step of this project on a made-up batch, for benchmarks to measure."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models, optimization
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.flags import config_from_flagfile
from t2t_keras.training.optimizer import SummedGradientAdam
from t2t_keras.training.profiling import training_flops
from t2t_keras.training.step import Stepper
from t2t_keras.typing import Batch, BatchShape, BatchSize

CONFIGS = Path(__file__).parents[1] / "configs"


class ProductStep(NamedTuple):
    """What `python -m t2t_keras.train` trains with, on one device."""

    model: Transformer
    optimizer: SummedGradientAdam
    stepper: Stepper


def product_step(
    config: ExperimentConfig, vocabulary_size: int, *, packed: bool = False
) -> ProductStep:
    """Returns the step with fresh weights, built as a training run builds it.

    Args:
        config: Of the model and its training.
        vocabulary_size: V.
        packed: Whether several pairs share a row of the batches.
    """
    model = models.build_model(config, vocabulary_size)
    optimizer = optimization.build_optimizer(config, model)
    strategy = tf.distribute.get_strategy()
    stepper = optimization.build_stepper(
        config.training, model, optimizer, strategy, packed=packed
    )
    return ProductStep(model, optimizer, stepper)


def named_config(name: str, **training: str | int | bool) -> ExperimentConfig:
    """Returns the settings of a flagfile in configs/, some of training replaced.

    Raises:
        UserError: If there is no such flagfile.
    """
    config = config_from_flagfile(CONFIGS / f"{name}.flags")
    settings = dataclasses.replace(config.training, **training)
    return dataclasses.replace(config, training=settings)


def made_up_batch(
    vocabulary_size: int, rows: int, source_length: int, target_length: int
) -> Batch:
    """Returns random pairs without padding, features [rows, length], always the same.

    Nothing is padded, so what a step costs is what its FLOPs count.
    """
    random = np.random.default_rng(0)
    source, target = (
        random.integers(3, vocabulary_size, (rows, length), "int32")
        for length in (source_length, target_length)
    )
    shifted = np.zeros_like(target)
    shifted[:, 1:] = target[:, :-1]
    return {
        "encoder_input_tokens": source,
        "decoder_input_tokens": shifted,
        "decoder_target_tokens": target,
        "decoder_loss_weights": np.ones(target.shape, "float32"),
    }


def flops_of(step: ProductStep, batch: Batch) -> float:
    """Returns the FLOPs of an update on a made-up batch."""
    rows, source_length = batch["encoder_input_tokens"].shape
    target_length = batch["decoder_target_tokens"].shape[1]
    size = BatchSize(
        BatchShape(rows, source_length, target_length),
        source_tokens=rows * source_length,
        target_tokens=rows * target_length,
    )
    return training_flops(step.model.sizes, size)
