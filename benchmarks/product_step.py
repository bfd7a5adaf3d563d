"""Training step of this project and a synthetic batch, for benchmarks to measure."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.training import optimization
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.flags import config_from_flagfile
from t2t_keras.training.optimizer import SummedGradients
from t2t_keras.training.profiling import training_flops
from t2t_keras.training.step import Stepper
from t2t_keras.typing import (
    DECODER_INPUT_TOKENS,
    DECODER_LOSS_WEIGHTS,
    DECODER_POSITIONS,
    DECODER_SEGMENT_IDS,
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
    ENCODER_POSITIONS,
    ENCODER_SEGMENT_IDS,
    Batch,
    BatchShape,
    BatchSize,
)

CONFIGS = Path(__file__).parents[1] / "configs"


class ProductStep(NamedTuple):
    """Model, optimizer and stepper of `python -m t2t_keras.train` on one device."""

    model: Transformer
    optimizer: SummedGradients
    stepper: Stepper


def build_product_step(
    config: ExperimentConfig,
    vocabulary_size: int,
    *,
    packed: bool = False,
    device: str | None = None,
) -> ProductStep:
    """Returns a training step with fresh weights, built as a training run builds it.

    Args:
        config: Settings of the model and its training.
        vocabulary_size: V.
        packed: Whether the rows of a batch may hold several pairs.
        device: Kind of device to choose for, "cpu" or "gpu". Default: what this process
            trains on.
    """
    model = models.build_model(config, vocabulary_size)
    optimizer = optimization.build_optimizer(config, model)
    strategy = tf.distribute.get_strategy()
    stepper = optimization.build_stepper(
        config.training, model, optimizer, strategy, packed=packed, device=device
    )
    return ProductStep(model, optimizer, stepper)


def load_config(name: str, **training: str | int | bool) -> ExperimentConfig:
    """Returns the settings of a flagfile in configs/, some training settings replaced.

    Raises:
        UserError: If there is no such flagfile.
    """
    config = config_from_flagfile(CONFIGS / f"{name}.flags")
    settings = dataclasses.replace(config.training, **training)
    return dataclasses.replace(config, training=settings)


def make_synthetic_batch(
    vocabulary_size: int, rows: int, source_length: int, target_length: int
) -> Batch:
    """Returns a batch of random pairs, features [rows, length], the same at each call.

    Nothing is padded, so the FLOPs of a step count all its work.
    """
    random = np.random.default_rng(0)
    source, target = (
        random.integers(3, vocabulary_size, (rows, length), "int32")
        for length in (source_length, target_length)
    )
    shifted = np.zeros_like(target)
    shifted[:, 1:] = target[:, :-1]
    return {
        ENCODER_INPUT_TOKENS: source,
        DECODER_INPUT_TOKENS: shifted,
        DECODER_TARGET_TOKENS: target,
        DECODER_LOSS_WEIGHTS: np.ones(target.shape, "float32"),
    }


def make_packed_batch(
    vocabulary_size: int, rows: int, source_length: int, target_length: int
) -> Batch:
    """Returns a batch of random packed rows, features [rows, length], always the same.

    A row has a pair for each 16 tokens, cut at random places. Nothing is padded.
    """
    batch = make_synthetic_batch(vocabulary_size, rows, source_length, target_length)
    random = np.random.default_rng(1)
    pairs = max(1, min(source_length, target_length) // 16)
    for length, segments, positions in (
        (source_length, ENCODER_SEGMENT_IDS, ENCODER_POSITIONS),
        (target_length, DECODER_SEGMENT_IDS, DECODER_POSITIONS),
    ):
        starts = np.zeros((rows, length), "int32")
        starts[:, 0] = 1
        for row in starts:
            row[random.choice(np.arange(1, length), pairs - 1, replace=False)] = 1
        places = np.arange(length, dtype="int32")
        first = np.maximum.accumulate(places * starts, axis=1)
        batch[segments] = np.cumsum(starts, axis=1, dtype="int32")
        batch[positions] = places - first
    # The input at the start of each pair is padding, as where one starts a row.
    batch[DECODER_INPUT_TOKENS] *= batch[DECODER_POSITIONS] > 0
    return batch


def count_update_flops(step: ProductStep, batch: Batch) -> float:
    """Returns the FLOPs of an update on a synthetic batch."""
    rows, source_length = batch[ENCODER_INPUT_TOKENS].shape
    target_length = batch[DECODER_TARGET_TOKENS].shape[1]
    size = BatchSize(
        BatchShape(rows, source_length, target_length),
        source_tokens=rows * source_length,
        target_tokens=rows * target_length,
    )
    return training_flops(step.model.sizes, size)
