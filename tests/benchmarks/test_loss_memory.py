"""Benchmark of loss memory: all variants compute the same; a fault is found."""

import copy

import pytest

from benchmarks.loss_memory import one_way, step
from benchmarks.loss_memory.__main__ import WAYS, check_same
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig

SMALL = ExperimentConfig(
    model=ModelConfig(num_layers=1, d_model=8, d_ff=12, num_heads=2, dropout_rate=0.0),
    training=TrainingConfig(jit_compile=False, warmup_steps=2),
)


@pytest.mark.release
def test_the_step_sees_the_same_losses_and_gradients_in_every_way() -> None:
    assert set(WAYS) == set(one_way.LOSSES)
    found = {way: step.measure_with_loss(way, SMALL, 50, 64, steps=1) for way in WAYS}
    check_same(found)
    for figures in found.values():
        assert len(set(figures["losses"])) == 2  # the weights have changed
        assert len(figures["seconds"]) == 1
    for name in ("losses", "gradient_norms"):
        wrong = copy.deepcopy(found)
        wrong[WAYS[-1]][name] = [1.01 * value for value in wrong[WAYS[-1]][name]]
        with pytest.raises(SystemExit, match=f"must have the same {name}"):
            check_same(wrong)
