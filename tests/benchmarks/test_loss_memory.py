"""Benchmark of loss memory: all variants compute the same loss; a fault is found."""

import copy

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.loss_memory import one_way, step
from benchmarks.loss_memory.__main__ import WAYS, check_same
from t2t_keras.settings.config import ExperimentConfig, ModelConfig, TrainingConfig
from t2t_keras.training import update
from t2t_keras.training.losses import LossSums


@pytest.mark.parametrize("way", WAYS)
def test_a_loss_is_the_cross_entropy_with_smoothed_targets(way) -> None:
    random = np.random.default_rng(0)
    hidden, embeddings = random.normal(size=(2, 5, 3)), random.normal(size=(7, 3))
    targets = random.integers(0, 7, (2, 5))
    weights = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.float64)
    logits = hidden @ embeddings.T
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    q = np.full((2, 5, 7), 0.1 / 6)
    np.put_along_axis(q, targets[..., None], 0.9, axis=-1)
    true = np.take_along_axis(log_p, targets[..., None], -1)[..., 0]
    sums = one_way.LOSSES[way](
        *(tf.constant(array, tf.float32) for array in (hidden, embeddings)),
        tf.constant(targets, tf.int32),
        tf.constant(weights, tf.float32),
        label_smoothing=0.1,
    )
    loss = -((q * log_p).sum(-1) * weights).sum()
    expected = LossSums(loss, -(true * weights).sum(), 7.0)
    np.testing.assert_allclose(sums, expected, rtol=1e-5)


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


@pytest.mark.slow
def test_a_loss_that_the_step_does_not_call_is_noticed(monkeypatch) -> None:
    def other_loss(_self, hidden, *_):
        return LossSums(tf.reduce_sum(hidden), tf.constant(0.0), tf.constant(1.0))

    monkeypatch.setattr(update.ReplicaUpdate, "_loss_sums", other_loss)
    with pytest.raises(SystemExit, match="must call label_smoothed_cross_entropy"):
        step.measure_with_loss("one_hot", SMALL, 50, 64, steps=1)
