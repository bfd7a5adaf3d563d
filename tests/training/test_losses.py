"""The loss and its gradient held against float64 NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.losses import LossSums, label_smoothed_cross_entropy
from tests.reference import transformer_np

B, T, V = 4, 5, 7


@pytest.fixture
def inputs():
    """Logits [B, T, V], targets [B, T] and weights; the last row is all padding."""
    rng = np.random.default_rng(5)
    logits = rng.normal(scale=3.0, size=(B, T, V)).astype("float32")
    targets = rng.integers(1, V, (B, T)).astype("int32")
    weights = (np.arange(T) < np.array([[T], [3], [1], [0]])).astype("float32")
    return logits, targets * weights.astype("int32"), weights


def expected_sums(logits, targets, weights, label_smoothing) -> list[float]:
    sums = [0.0, 0.0]
    for b, t in zip(*np.nonzero(weights), strict=True):
        row = logits[b, t].astype("float64")[None]
        for index, smoothing in enumerate((label_smoothing, 0.0)):
            sums[index] += transformer_np.label_smoothed_cross_entropy(
                row, [targets[b, t]], smoothing
            )[0]
    return [*sums, float(np.count_nonzero(weights))]


def as_numpy(sums: LossSums) -> list[float]:
    return [float(part) for part in sums]


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.45])
def test_the_sums_are_the_references(inputs, label_smoothing) -> None:
    actual = label_smoothed_cross_entropy(*inputs, label_smoothing=label_smoothing)
    expected = expected_sums(*inputs, label_smoothing)
    np.testing.assert_allclose(as_numpy(actual), expected, rtol=2e-6)
    # Another convention in use, the mass shared over all V, is farther off.
    if label_smoothing:
        wrong = expected_sums(*inputs, label_smoothing * (V - 1) / V)
        assert abs(wrong[0] / expected[0] - 1) > 1e-4


def test_the_gradient_is_softmax_minus_what_is_wanted(inputs) -> None:
    logits, targets, weights = inputs
    variable = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        sums = label_smoothed_cross_entropy(
            variable, targets, weights, label_smoothing=0.1
        )
    gradient = tape.gradient(sums.loss_sum, variable).numpy()
    wanted = np.full((B, T, V), 0.1 / (V - 1))
    np.put_along_axis(wanted, targets[..., None], 0.9, axis=-1)
    softmax = transformer_np.softmax(logits.astype("float64"))
    expected = (softmax - wanted) * weights[..., None]
    np.testing.assert_allclose(gradient, expected, atol=3e-7)
    assert np.abs(gradient[weights == 0]).max() == 0.0


def test_the_gradient_agrees_with_finite_differences(inputs) -> None:
    logits, targets, weights = inputs
    variable = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        sums = label_smoothed_cross_entropy(
            variable, targets, weights, label_smoothing=0.1
        )
    gradient = tape.gradient(sums.loss_sum, variable).numpy()
    for index in [(0, 4, 2), (1, 2, 6), (2, 0, 0), (3, 3, 3)]:
        ends = []
        for change in (1e-5, -1e-5):
            moved = logits.astype("float64")
            moved[index] += change
            ends.append(expected_sums(moved, targets, weights, 0.1)[0])
        slope = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(gradient[index], slope, atol=1e-6)


def test_sums_of_parts_add_up_to_the_whole(inputs) -> None:
    whole = label_smoothed_cross_entropy(*inputs, label_smoothing=0.1)
    parts = [
        label_smoothed_cross_entropy(*(x[rows] for x in inputs), label_smoothing=0.1)
        for rows in (slice(0, 1), slice(1, 4))
    ]
    added = np.sum([as_numpy(part) for part in parts], axis=0)
    np.testing.assert_allclose(added, as_numpy(whole), rtol=1e-6)
    # A mean of the parts' means would be another number.
    means = [float(part.loss_sum / part.token_count) for part in parts]
    assert abs(np.mean(means) / (added[0] / added[2]) - 1) > 1e-3


def test_a_batch_of_padding_costs_nothing_and_has_no_gradient(inputs) -> None:
    logits, targets, _ = inputs
    variable = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        sums = label_smoothed_cross_entropy(
            variable, np.zeros_like(targets), np.zeros((B, T)), label_smoothing=0.1
        )
    assert as_numpy(sums) == [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(tape.gradient(sums.loss_sum, variable), 0.0)


def test_what_stands_in_padding_does_not_matter(inputs) -> None:
    logits, targets, weights = inputs
    before = label_smoothed_cross_entropy(*inputs, label_smoothing=0.1)
    changed = np.where(weights[..., None] == 0, 50.0, logits)
    after = label_smoothed_cross_entropy(
        changed, np.where(weights == 0, 3, targets), weights, label_smoothing=0.1
    )
    assert as_numpy(after) == as_numpy(before)


def test_bfloat16_logits_are_summed_in_float32(inputs) -> None:
    logits, targets, weights = inputs
    rounded = tf.cast(logits, tf.bfloat16)
    sums = label_smoothed_cross_entropy(rounded, targets, weights, label_smoothing=0.1)
    assert {part.dtype for part in sums} == {tf.float32}
    # The reference on the very values that bfloat16 holds: no rounding after that.
    held = tf.cast(rounded, tf.float32).numpy()
    expected = expected_sums(held, targets, weights, 0.1)
    np.testing.assert_allclose(as_numpy(sums), expected, rtol=2e-6)


def test_large_logits_stay_finite(inputs) -> None:
    logits, targets, weights = inputs
    far = logits * np.float32(1e4)
    sums = label_smoothed_cross_entropy(far, targets, weights, label_smoothing=0.1)
    expected = expected_sums(far, targets, weights, 0.1)
    np.testing.assert_allclose(as_numpy(sums), expected, rtol=1e-5)


def test_xla_computes_the_same(inputs) -> None:
    compiled = tf.function(
        lambda *args: label_smoothed_cross_entropy(*args, label_smoothing=0.1),
        jit_compile=True,
    )
    expected = expected_sums(*inputs, 0.1)
    np.testing.assert_allclose(as_numpy(compiled(*inputs)), expected, rtol=2e-6)


@pytest.mark.parametrize("label_smoothing", [-0.1, 1.0])
def test_a_smoothing_that_cannot_be_meant_is_refused(inputs, label_smoothing) -> None:
    message = rf"label_smoothing must be in \[0, 1\)\. Received: {label_smoothing}"
    with pytest.raises(ValueError, match=message):
        label_smoothed_cross_entropy(*inputs, label_smoothing=label_smoothing)


def test_the_number_of_classes_may_be_two() -> None:
    sums = label_smoothed_cross_entropy(
        keras.ops.array([[[0.0, 3.0]]]),
        np.array([[1]]),
        np.ones((1, 1)),
        label_smoothing=0.25,
    )
    # By hand: log(1 + e^-3) for the true one, 3 more for the other.
    expected = np.log1p(np.exp(-3.0)) + 0.25 * 3.0
    assert float(sums.loss_sum) == pytest.approx(expected, rel=1e-6)
