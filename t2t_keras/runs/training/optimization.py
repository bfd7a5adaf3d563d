"""Learning-rate schedule, optimizer and update step of a run."""

from typing import cast

import keras
import tensorflow as tf

from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.training.devices import choices_for, current_device
from t2t_keras.training.optimizer import (
    OPTIMIZERS,
    SummedGradients,
    SummedGradientScheduleFreeAdamW,
)
from t2t_keras.training.schedule import WarmupInverseSquareRoot, WarmupSchedule
from t2t_keras.training.step import Stepper
from t2t_keras.training.update import ReplicaUpdate
from t2t_keras.training.weight_averages import ScheduleFreeAverages, WeightAverages


def build_schedule(
    config: ExperimentConfig,
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Returns the learning-rate schedule of the settings."""
    training = config.training
    if training.schedule == "paper":
        return WarmupInverseSquareRoot(
            config.model.d_model, training.warmup_steps, training.learning_rate_scale
        )
    return WarmupSchedule(
        training.schedule,
        cast(float, training.learning_rate),
        training.warmup_steps,
        training.train_steps,
    )


def build_optimizer(config: ExperimentConfig, model: keras.Model) -> SummedGradients:
    """Returns the optimizer of the settings with their schedule, built for a model."""
    training = config.training
    optimizer = OPTIMIZERS[training.optimizer](
        build_schedule(config),
        weight_decay=training.weight_decay or None,
        # Unlike bfloat16, float16 lacks float32's range: small gradients would vanish.
        dynamic_loss_scale=training.precision == "float16",
        # Its float32 is fast on CPUs, also where that of bfloat16 is not.
        jit_compile=training.jit_compile,
    )
    optimizer.build(model.trainable_variables)
    return optimizer


def build_averages(
    config: TrainingConfig, model: keras.Model, optimizer: SummedGradients
) -> WeightAverages | None:
    """Returns the averages of the weights that are evaluated and used; None for none.

    Call it in the scope of the strategy.
    """
    if isinstance(optimizer, SummedGradientScheduleFreeAdamW):
        return ScheduleFreeAverages(optimizer)
    if config.ema_decay is None:
        return None
    return WeightAverages(model.trainable_variables, config.ema_decay)


def uses_xla(config: TrainingConfig, device: str | None = None) -> bool:
    """Returns whether XLA compiles the step: if requested, and not slower.

    Args:
        config: The training settings.
        device: "cpu" or "gpu". Default: what this process trains on.
    """
    choices = choices_for(device or current_device())
    return config.jit_compile and (
        choices.xla_for_bfloat16 or config.precision != "bfloat16"
    )


def build_stepper(
    config: TrainingConfig,
    model: keras.Model,
    optimizer: SummedGradients | None,
    strategy: tf.distribute.Strategy,
    *,
    averages: WeightAverages | None = None,
    packed: bool = False,
    device: str | None = None,
) -> Stepper:
    """Returns the stepper that trains and evaluates a model.

    Args:
        config: The training settings.
        model: The model.
        optimizer: None for a stepper that only evaluates.
        strategy: Devices to compute on.
        averages: Moving averages of the weights to update too; None for none.
        packed: Whether training batches are packed.
        device: Kind of device to choose for, "cpu" or "gpu". Default: what this process
            trains on.
    """
    device = device or current_device()
    update = ReplicaUpdate(
        model,
        optimizer,
        averages=averages,
        clip_norm=config.clip_norm,
        label_smoothing=config.label_smoothing,
        guided_alignment=config.guided_alignment,
        r_drop=config.r_drop,
        seed=config.seed,
        jit_compile=uses_xla(config, device),
        logits_at_once=choices_for(device).logits_at_once,
        packed=packed,
    )
    return Stepper(update, strategy, max_tokens=config.max_tokens_per_replica)
