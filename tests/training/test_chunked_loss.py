"""The loss in chunks held against the loss at once, which NumPy holds in its place."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training import chunked_loss
from t2t_keras.training.chunked_loss import chunked_cross_entropy
from t2t_keras.training.losses import label_smoothed_cross_entropy

B, T, D, V = 4, 5, 6, 11


@pytest.fixture
def inputs():
    """Hidden states, embeddings, targets, weights; the last row is all padding."""
    rng = np.random.default_rng(5)
    hidden = tf.constant(rng.normal(size=(B, T, D)), tf.float32)
    embeddings = tf.constant(rng.normal(size=(V, D)), tf.float32)
    weights = (np.arange(T) < np.array([[T], [3], [1], [0]])).astype("float32")
    targets = rng.integers(1, V, (B, T)).astype("int32") * weights.astype("int32")
    return hidden, embeddings, targets, weights


def at_once(hidden, embeddings, targets, weights, smoothing):
    logits = tf.matmul(hidden, embeddings, transpose_b=True)
    return label_smoothed_cross_entropy(
        logits, targets, weights, label_smoothing=smoothing
    )


def with_gradients(loss, hidden, embeddings):
    with tf.GradientTape() as tape:
        tape.watch([hidden, embeddings])
        sums = loss(hidden, embeddings)
    return sums, tape.gradient(sums.loss_sum, [hidden, embeddings])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
# A row at a time; chunks that 20 rows do not fill; two chunks; all in one.
@pytest.mark.parametrize("logits_at_once", [1, 3 * V + 1, 10 * V, 10_000])
@pytest.mark.parametrize("jit_compile", [None, True])
def test_chunks_do_not_matter(inputs, smoothing, logits_at_once, jit_compile) -> None:
    hidden, embeddings, targets, weights = inputs
    expected, expected_gradients = with_gradients(
        lambda h, e: at_once(h, e, targets, weights, smoothing), hidden, embeddings
    )

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, D]),
            tf.TensorSpec([V, D]),
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, None]),
        ],
        jit_compile=jit_compile,
    )
    def chunked(hidden, embeddings, targets, weights):
        return with_gradients(
            lambda h, e: chunked_cross_entropy(
                h,
                e,
                targets,
                weights,
                label_smoothing=smoothing,
                logits_at_once=logits_at_once,
            ),
            hidden,
            embeddings,
        )

    sums, gradients = chunked(hidden, embeddings, targets, weights)
    np.testing.assert_allclose(sums, expected, rtol=2e-6)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6)
        assert np.abs(wanted).max() > 0.1


def test_the_gradient_is_scaled_before_it_is_rounded(inputs) -> None:
    """What float16 would round to zero is there if it is scaled in time."""
    hidden, embeddings, targets, weights = inputs
    small = weights * 1e-8
    half = tf.cast(hidden, tf.float16)

    def gradient(scale):
        _, (by_hidden, _) = with_gradients(
            lambda h, e: chunked_cross_entropy(
                h, e, targets, small, label_smoothing=0.1, gradient_scale=scale
            ),
            half,
            embeddings,
        )
        return by_hidden.numpy().astype("float64")

    assert by_far_smaller(gradient(1.0), gradient(2.0**13) / 2**13)
    sums = chunked_cross_entropy(
        half, embeddings, targets, small, label_smoothing=0.1, gradient_scale=2.0**13
    )
    whole = at_once(tf.cast(half, tf.float32), embeddings, targets, small, 0.1)
    np.testing.assert_allclose(sums, whole, rtol=2e-3)


def by_far_smaller(one: np.ndarray, other: np.ndarray) -> bool:
    return np.abs(one).sum() < 0.7 * np.abs(other).sum()


def test_other_multiples_of_the_loss_have_other_gradients(inputs) -> None:
    hidden, embeddings, targets, weights = inputs
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        sums = chunked_cross_entropy(
            hidden, embeddings, targets, weights, label_smoothing=0.1
        )
        thrice = 3.0 * sums.loss_sum
    _, (expected, _) = with_gradients(
        lambda h, e: at_once(h, e, targets, weights, 0.1), hidden, embeddings
    )
    np.testing.assert_allclose(tape.gradient(thrice, hidden), 3 * expected, atol=5e-6)


def test_no_chunk_is_computed_half_empty(inputs, monkeypatch) -> None:
    # 20 tokens, 13 of them at a time: 10 and 10, not 13 and 13.
    rows, softmax_of_chunk = [], chunked_loss._softmax_of_chunk

    def noting(hidden, *arguments):
        rows.append(hidden.shape[0])
        return softmax_of_chunk(hidden, *arguments)

    monkeypatch.setattr(chunked_loss, "_softmax_of_chunk", noting)
    chunked_cross_entropy(*inputs, label_smoothing=0.1, logits_at_once=13 * V)
    assert rows == [10, 10]
