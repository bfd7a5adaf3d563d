"""R-Drop against float64 NumPy and finite differences; equal on all devices."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.losses import label_smoothed_cross_entropy
from t2t_keras.training.update import row_keys
from tests.reference import transformer_np
from tests.training.steppers import (
    assert_same_run,
    batches,
    build_stepper,
    run_updates,
    toy,
)

WEIGHT, SMOOTHING = 3.0, 0.1
PAIRS, T, D, V = 3, 5, 4, 7


def loss_by_definition(logits, targets, weights) -> float:
    """Half of equation 4 of Liang et al. 2021, summed over tokens.

    Args:
        logits: Those of the two masks, [2, B, T, V].
        targets: [B, T].
        weights: [B, T], 0 at padding.
    """
    total = 0.0
    for b, t in zip(*np.nonzero(weights), strict=True):
        rows = logits[:, b, t].astype("float64")
        likelihood = sum(
            transformer_np.label_smoothed_cross_entropy(
                row[None], [targets[b, t]], SMOOTHING
            )[0]
            for row in rows
        )
        p, q = (transformer_np.softmax(row) for row in rows)
        divergence = np.sum(p * np.log(p / q)) + np.sum(q * np.log(q / p))
        total += (likelihood + WEIGHT / 2 * divergence) / 2
    return total


@pytest.fixture
def parts():
    """Hidden states of two masks [2, B, T, D], embeddings and bias, float64."""
    rng = np.random.default_rng(8)
    return (
        rng.normal(size=(2, PAIRS, T, D)),
        rng.normal(size=(V, D)),
        rng.normal(size=V),
    )


TARGETS = np.random.default_rng(2).integers(1, V, (PAIRS, T)).astype("int32")
# The last pair is all padding.
WEIGHTS = (np.arange(T) < np.array([[T], [2], [0]])).astype("float32")


def numeric_gradient(loss, values: np.ndarray) -> np.ndarray:
    gradient = np.zeros_like(values)
    for index in np.ndindex(values.shape):
        sides = []
        for change in (1e-5, -1e-5):
            moved = values.copy()
            moved[index] += change
            sides.append(loss(moved))
        gradient[index] = (sides[0] - sides[1]) / 2e-5
    return gradient


@pytest.mark.parametrize("jit_compile", [None, True])
@pytest.mark.parametrize("logits_at_once", [1, 5 * V, 10_000])
def test_loss_and_gradient_are_those_of_the_definition(
    parts, jit_compile, logits_at_once
) -> None:
    def loss(hidden, embeddings, bias):
        return loss_by_definition(hidden @ embeddings.T + bias, TARGETS, WEIGHTS)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def computed(hidden, embeddings, bias):
        with tf.GradientTape() as tape:
            tape.watch([hidden, embeddings, bias])
            rows = tf.reshape(tf.transpose(hidden, [1, 0, 2, 3]), [2 * PAIRS, T, D])
            sums = label_smoothed_cross_entropy(
                rows,
                embeddings,
                np.repeat(TARGETS, 2, axis=0),
                np.repeat(0.5 * WEIGHTS, 2, axis=0),
                label_smoothing=SMOOTHING,
                output_bias=bias,
                consistency=WEIGHT / 2,
                logits_at_once=logits_at_once,
                compiled=bool(jit_compile),
            )
        return sums, tape.gradient(sums.loss_sum, [hidden, embeddings, bias])

    sums, gradients = computed(*(tf.constant(part, tf.float32) for part in parts))
    assert float(sums.loss_sum) == pytest.approx(loss(*parts), rel=1e-5)
    assert float(sums.token_count) == WEIGHTS.sum()
    for i, gradient in enumerate(gradients):
        expected = numeric_gradient(
            lambda moved, i=i: loss(*parts[:i], moved, *parts[i + 1 :]), parts[i]
        )
        np.testing.assert_allclose(gradient, expected, atol=1e-4)
        assert np.abs(expected).max() > 0.3


def test_an_update_has_two_masks_for_each_row() -> None:
    model, _, stepper = build_stepper(toy, 1, r_drop=WEIGHT)
    batch = batches(11)[0]
    keys = row_keys(5, tf.constant(0, tf.int64), tf.range(len(WEIGHTS[0])))
    assert len(batch["decoder_loss_weights"]) == len(keys)
    matrix = model.output_embeddings.numpy()
    logits = np.stack(
        [
            model.hidden_states(batch, each).numpy() @ matrix.T
            for each in (
                keys,
                tf.bitwise.bitwise_xor(keys, tf.constant(2**31, "uint32")),
            )
        ]
    )
    assert np.abs(logits[0] - logits[1]).max() > 0.1
    expected = loss_by_definition(
        logits, batch["decoder_target_tokens"], batch["decoder_loss_weights"]
    )
    sums = stepper.train(batch)
    assert float(sums.losses.loss_sum) == pytest.approx(expected, rel=1e-5)
    assert float(sums.losses.token_count) == batch["decoder_loss_weights"].sum()


@pytest.mark.parametrize(
    ("devices", "max_tokens", "jit_compile"),
    [(2, 8, False), pytest.param(1, 18, True, marks=pytest.mark.slow)],
)
def test_devices_xla_and_micro_batches_do_not_matter(
    devices, max_tokens, jit_compile
) -> None:
    plain = run_updates(toy, batches(11), 1, jit_compile=False, r_drop=WEIGHT)
    other = run_updates(
        toy, batches(11), devices, jit_compile, r_drop=WEIGHT, max_tokens=max_tokens
    )
    assert_same_run(plain, other)
