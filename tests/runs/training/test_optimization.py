"""The optimizer of the settings."""

import dataclasses

import pytest

from t2t_keras.runs import models
from t2t_keras.runs.training import optimization
from t2t_keras.settings.setting import settings_of
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.training.optimizer import (
    OPTIMIZERS,
    SummedGradientAdam,
    SummedGradientMuon,
    SummedGradientScheduleFreeAdamW,
)
from t2t_keras.training.weight_averages import ScheduleFreeAverages, WeightAverages
from tests.runs.random_model import CONFIG

CLASSES = {
    "adam": SummedGradientAdam,
    "adamw": SummedGradientAdam,
    "muon": SummedGradientMuon,
    "schedule_free_adamw": SummedGradientScheduleFreeAdamW,
}


def build(**training):
    config = dataclasses.replace(CONFIG, training=TrainingConfig(**training))
    model = models.build_model(config, 23)
    optimizer = optimization.build_optimizer(config, model)
    averages = optimization.build_averages(config.training, model, optimizer)
    return optimizer, averages


@pytest.mark.parametrize("name", CLASSES)
def test_settings_reach_the_optimizer(name) -> None:
    decay = 0.0 if name == "adam" else 0.25
    optimizer, averages = build(optimizer=name, weight_decay=decay)
    assert type(optimizer) is CLASSES[name]
    assert optimizer.weight_decay == (decay or None)
    assert not optimizer.dynamic_loss_scale
    is_schedule_free = name == "schedule_free_adamw"
    assert isinstance(averages, ScheduleFreeAverages) == is_schedule_free


def test_loss_scale_and_moving_averages_go_with_every_optimizer() -> None:
    optimizer, averages = build(optimizer="muon", precision="float16", ema_decay=0.5)
    assert optimizer.dynamic_loss_scale
    assert type(averages) is WeightAverages


def test_every_optimizer_can_be_chosen() -> None:
    assert set(settings_of(TrainingConfig)["optimizer"].choices) == set(OPTIMIZERS)
    assert set(OPTIMIZERS) == set(CLASSES)
