"""Training with Keras' `fit`: equal to our own loop; the loss against NumPy."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.training.devices import choices_for
from t2t_keras.training.keras_fit import LabelSmoothedCrossEntropy, fit_arguments
from t2t_keras.training.optimizer import paper_adam
from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.training.step import Stepper
from t2t_keras.training.update import ReplicaUpdate, batch_signature
from t2t_keras.typing import Batch
from tests.devices import cpu_strategy
from tests.reference import transformer_np
from tests.training.toy_models import random_batch

V, D_MODEL, WARMUP = 13, 8, 4


def transformer(dropout_rate: float = 0.0, **options: Any) -> Transformer:
    keras.utils.set_random_seed(3)
    sizes = {"num_layers": 1, "d_model": D_MODEL, "d_ff": 12, "num_heads": 2}
    model = Transformer(V, **sizes, d_k=3, d_v=5, dropout_rate=dropout_rate, **options)
    model.build()
    return model


def schedule() -> WarmupInverseSquareRoot:
    return WarmupInverseSquareRoot(D_MODEL, WARMUP)


@keras.saving.register_keras_serializable(package="tests")
class DenseAdam(keras.optimizers.Adam):
    """Keras' Adam, with the gradient of an untied embedding as a tensor.

    Slices are not what Keras' Adam is exact for: it squares those of one word one by
    one, instead of their sum.
    """

    def apply(self, grads, trainable_variables=None):
        super().apply([*map(tf.convert_to_tensor, grads)], trainable_variables)


def compiled(model: Transformer, **options: Any) -> Transformer:
    adam = DenseAdam(schedule(), beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    loss = LabelSmoothedCrossEntropy(0.1)
    model.compile(adam, loss=loss, jit_compile=False, **options)
    return model


def batches() -> list[Batch]:
    """Ten batches of three shapes, each with a row of padding only."""
    shapes = ((5, 6), (7, 3), (4, 9))
    return [random_batch(*shapes[seed % 3], V, seed) for seed in range(10)]


def dataset(batch_list: list[Batch]) -> tf.data.Dataset:
    def elements() -> Iterator[Batch]:
        yield from batch_list

    spec = batch_signature(packed=False)
    result = tf.data.Dataset.from_generator(elements, output_signature=spec)
    assert_size = tf.data.experimental.assert_cardinality(len(batch_list))
    return result.apply(assert_size).map(fit_arguments)


def values(model: Transformer) -> list[np.ndarray]:
    return [weight.numpy() for weight in model.weights]


# --- The loss


def test_the_loss_is_the_papers_and_a_mean_over_real_tokens() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 5, V)) * 3
    targets = rng.integers(1, V, size=(3, 5))
    weights = np.arange(5) < np.array([5, 2, 0])[:, None]
    for smoothing in (0.0, 0.1, 0.35):
        costs = [
            transformer_np.label_smoothed_cross_entropy(row, ids, smoothing)
            for row, ids in zip(logits, targets, strict=True)
        ]
        loss = LabelSmoothedCrossEntropy(smoothing)
        value = loss(targets, logits.astype("float32"), weights.astype("float32"))
        # 7 of 15 positions are real tokens: a mean over positions would be half of it.
        expected = (np.stack(costs) * weights).sum() / 7
        np.testing.assert_allclose(value, expected, rtol=2e-6, err_msg=f"{smoothing}")


def test_bfloat16_logits_are_summed_in_float32() -> None:
    rng = np.random.default_rng(1)
    logits = keras.ops.cast(rng.normal(size=(1, 4, 500)), "bfloat16")
    targets = rng.integers(1, 500, size=(1, 4))
    exact = np.asarray(keras.ops.cast(logits, "float64"))[0]
    costs = transformer_np.label_smoothed_cross_entropy(exact, targets[0], 0.1)
    value = LabelSmoothedCrossEntropy(0.1)(targets, logits)
    np.testing.assert_allclose(value, costs.mean(), rtol=1e-6)


def test_ids_are_not_rounded_where_low_precision_is_the_default() -> None:
    # bfloat16 rounds both ids to 512, float16 the latter to 2052.
    targets = np.array([[511, 2051]])
    logits = np.random.default_rng(2).normal(size=(1, 2, 2060)) * 3
    costs = transformer_np.label_smoothed_cross_entropy(logits[0], targets[0], 0.1)
    floatx = keras.config.floatx()
    for dtype in ("bfloat16", "float16"):
        by_argument = LabelSmoothedCrossEntropy(0.1, dtype=dtype)
        try:
            keras.config.set_floatx(dtype)
            by_default = LabelSmoothedCrossEntropy(0.1)
            values = [
                loss(targets, tf.constant(logits, tf.float32))
                for loss in (by_argument, by_default)
            ]
        finally:
            keras.config.set_floatx(floatx)
        for value in values:
            assert value.dtype == "float32", dtype
            np.testing.assert_allclose(value, costs.mean(), rtol=2e-6, err_msg=dtype)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_a_smoothing_that_cannot_be_meant_is_refused(smoothing) -> None:
    with pytest.raises(ValueError, match=rf"in \[0, 1\).*{smoothing}"):
        LabelSmoothedCrossEntropy(smoothing)


# --- fit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "options"),
    [
        pytest.param(10, {}, id="paper"),
        pytest.param(
            2,
            {"output_bias": True, "tie_output": False, "decoder_start": 4},
            id="other output",
        ),
    ],
)
def test_updates_of_fit_are_those_of_our_loop(number, options) -> None:
    by_fit = compiled(transformer(**options))
    by_fit.fit(dataset(batches()[:number]), verbose=0, shuffle=False)
    by_loop = transformer(**options)
    optimizer = paper_adam(schedule())
    optimizer.build(by_loop.trainable_variables)
    update = ReplicaUpdate(
        by_loop,
        optimizer,
        label_smoothing=0.1,
        seed=5,
        jit_compile=False,
        logits_at_once=choices_for("cpu").logits_at_once,
    )
    stepper = Stepper(update, cpu_strategy(1))
    start = values(by_loop)
    for batch in batches()[:number]:
        stepper.train(batch)
    for before, ours, theirs in zip(
        start, values(by_loop), values(by_fit), strict=True
    ):
        assert np.abs(ours - before).max() > 1e-2  # trained, not both left alone
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)


def test_fit_drops() -> None:
    [batch] = batches()[:1]
    x, y, weights = fit_arguments(batch)
    model = compiled(transformer(dropout_rate=0.5), run_eagerly=True)
    plain = model.loss(y, model(x), weights)
    history = model.fit(dataset([batch]), verbose=0, shuffle=False)
    # The difference would be zero if `training=True` dropped nothing.
    assert abs(history.history["loss"][0] - float(plain)) > 1e-3


def test_packed_features_reach_the_model() -> None:
    batch = dict(random_batch(2, 3, V, 0))
    extra = ("encoder_segment_ids", "encoder_positions")
    batch |= {name: batch["encoder_input_tokens"] for name in extra}
    x, y, weights = fit_arguments(batch)
    assert set(x) == {"encoder_input_tokens", "decoder_input_tokens", *extra}
    assert y is batch["decoder_target_tokens"]
    assert weights is batch["decoder_loss_weights"]


@pytest.mark.slow
def test_fit_on_two_devices_is_fit_on_one_where_they_have_equal_tokens() -> None:
    # With equal halves of each batch, the mean of the replicas' means is the mean.
    halves = batches()[:4]
    doubled = [
        {name: np.concatenate([part, part]) for name, part in batch.items()}
        for batch in halves
    ]
    alone = compiled(transformer())
    alone.fit(dataset(doubled), verbose=0, shuffle=False)
    with cpu_strategy(2).scope():
        mirrored = compiled(transformer())
    mirrored.fit(dataset(doubled), verbose=0, shuffle=False)
    for ours, theirs in zip(values(alone), values(mirrored), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_compiled_model_is_saved_with_its_loss_and_schedule(tmp_path) -> None:
    model = compiled(transformer())
    model.fit(dataset(batches()[:2]), verbose=0, shuffle=False)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert loaded.loss.get_config() == model.loss.get_config()
    assert loaded.optimizer.iterations.numpy() == 2
    rate = loaded.optimizer.learning_rate
    np.testing.assert_allclose(rate, schedule()(2), rtol=1e-6)
    for each in (model, loaded):
        each.fit(dataset(batches()[2:4]), verbose=0, shuffle=False)
    for ours, theirs in zip(values(model), values(loaded), strict=True):
        np.testing.assert_array_equal(theirs, ours)
