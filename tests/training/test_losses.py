"""Label-smoothed cross-entropy and its gradient against float64 NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training import losses
from t2t_keras.training.losses import LossSums, label_smoothed_cross_entropy
from tests.reference import transformer_np

B, T, D, V = 4, 5, 6, 11


@pytest.fixture
def inputs():
    """Hidden states, embeddings, targets, weights; the last row is all padding."""
    rng = np.random.default_rng(5)
    hidden = rng.normal(size=(B, T, D)).astype("float32")
    embeddings = rng.normal(size=(V, D)).astype("float32")
    weights = (np.arange(T) < np.array([[T], [3], [1], [0]])).astype("float32")
    targets = rng.integers(1, V, (B, T)).astype("int32") * weights.astype("int32")
    return hidden, embeddings, targets, weights


def expected_sums(hidden, embeddings, targets, weights, smoothing) -> np.ndarray:
    """Sums of loss, log loss and tokens, computed token by token."""
    sums = np.zeros(3)
    for b, t in zip(*np.nonzero(weights), strict=True):
        row = (hidden[b, t].astype("float64") @ embeddings.T.astype("float64"))[None]
        costs = [
            transformer_np.label_smoothed_cross_entropy(row, [targets[b, t]], epsilon)
            for epsilon in (smoothing, 0.0)
        ]
        sums += weights[b, t] * np.array([costs[0][0], costs[1][0], 1.0])
    return sums


def expected_gradients(hidden, embeddings, targets, weights, smoothing):
    """Gradients of the logits (softmax minus target) passed on to both inputs."""
    hidden, embeddings = hidden.astype("float64"), embeddings.astype("float64")
    target_distribution = np.full((B, T, V), smoothing / (V - 1))
    np.put_along_axis(target_distribution, targets[..., None], 1 - smoothing, axis=-1)
    grad_logits = transformer_np.softmax(hidden @ embeddings.T) - target_distribution
    grad_logits *= weights[..., None]
    return grad_logits @ embeddings, np.einsum("btv,btd->vd", grad_logits, hidden)


def loss_and_gradients(hidden, embeddings, targets, weights, **settings):
    hidden, embeddings = map(tf.convert_to_tensor, (hidden, embeddings))
    with tf.GradientTape() as tape:
        tape.watch([hidden, embeddings])
        sums = label_smoothed_cross_entropy(
            hidden, embeddings, targets, weights, **settings
        )
    return sums, tape.gradient(sums.loss_sum, [hidden, embeddings])


def as_numpy(sums: LossSums) -> np.ndarray:
    return np.array([float(part) for part in sums])


@pytest.mark.parametrize(
    ("jit_compile", "smoothing", "logits_at_once"),
    [
        # Chunks of one row; chunks that 20 rows do not fill; two chunks; a single one.
        (None, 0.1, 1),
        (None, 0.1, 3 * V + 1),
        (None, 0.0, 10 * V),
        (None, 0.45, 10_000),
        (True, 0.1, 3 * V + 1),
        (True, 0.45, 10_000),
    ],
)
def test_it_is_the_references_whatever_the_chunks(
    inputs, smoothing, logits_at_once, jit_compile
) -> None:
    signature = [
        tf.TensorSpec([None, None, D]),
        tf.TensorSpec([V, D]),
        tf.TensorSpec([None, None], tf.int32),
        tf.TensorSpec([None, None]),
    ]

    @tf.function(input_signature=signature, jit_compile=jit_compile, autograph=False)
    def computed(*inputs):
        return loss_and_gradients(
            *inputs,
            label_smoothing=smoothing,
            logits_at_once=logits_at_once,
            compiled=bool(jit_compile),
        )

    sums, gradients = computed(*inputs)
    expected = expected_sums(*inputs, smoothing)
    np.testing.assert_allclose(as_numpy(sums), expected, rtol=2e-6)
    for gradient, reference in zip(
        gradients, expected_gradients(*inputs, smoothing), strict=True
    ):
        np.testing.assert_allclose(gradient, reference, atol=2e-6)
        assert np.abs(reference).max() > 0.1
    assert not np.any(gradients[0].numpy()[inputs[3] == 0])


def test_how_the_gradient_is_computed_changes_no_bit(inputs) -> None:
    settings = {"label_smoothing": 0.1, "logits_at_once": 3 * V + 1}
    sums, gradients = loss_and_gradients(*inputs, **settings)
    masked_sums, masked = loss_and_gradients(*inputs, **settings, compiled=True)
    np.testing.assert_array_equal(as_numpy(masked_sums), as_numpy(sums))
    for ours, theirs in zip(masked, gradients, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("jit_compile", [None, True])
def test_an_output_bias_has_an_exact_gradient(inputs, jit_compile) -> None:
    """For the reference, it is a column of the embeddings, and a channel of ones."""
    hidden, embeddings, targets, weights = inputs
    bias = np.random.default_rng(9).normal(size=V).astype("float32")
    wide = np.concatenate([hidden, np.ones_like(hidden[..., :1])], axis=-1)
    extended = np.concatenate([embeddings, bias[:, None]], axis=-1)
    expected = expected_sums(wide, extended, targets, weights, 0.1)
    grad_hidden, grad_extended = expected_gradients(
        wide, extended, targets, weights, 0.1
    )
    references = grad_hidden[..., :D], grad_extended[:, :D], grad_extended[:, D]
    # The logits of all tokens at once, and of six at a time.
    for logits_at_once in (10_000, 6 * V):

        @tf.function(jit_compile=jit_compile, autograph=False)
        def computed(*parts, logits_at_once=logits_at_once):
            with tf.GradientTape() as tape:
                tape.watch(parts)
                sums = label_smoothed_cross_entropy(
                    *parts[:2],
                    targets,
                    weights,
                    label_smoothing=0.1,
                    output_bias=parts[2],
                    logits_at_once=logits_at_once,
                    compiled=bool(jit_compile),
                )
            return sums, tape.gradient(sums.loss_sum, parts)

        sums, gradients = computed(*map(tf.constant, (hidden, embeddings, bias)))
        np.testing.assert_allclose(as_numpy(sums), expected, rtol=2e-6)
        for gradient, reference in zip(gradients, references, strict=True):
            np.testing.assert_allclose(gradient, reference, atol=3e-6)
            assert np.abs(reference).max() > 0.1
    without = label_smoothed_cross_entropy(
        *inputs, label_smoothing=0.1, output_bias=bias, gradient_scale=None
    )
    np.testing.assert_allclose(as_numpy(without), expected, rtol=2e-6)


def test_a_bias_stays_float32_beside_bfloat16(inputs) -> None:
    # bfloat16 would round the logits' bias of 1000.5, and with it the loss, by 0.5.
    hidden, embeddings, targets, weights = inputs
    bias = np.where(np.arange(V) == 3, 1000.5, 0.0).astype("float32")
    sums = label_smoothed_cross_entropy(
        tf.zeros_like(hidden, tf.bfloat16),
        embeddings,
        np.full_like(targets, 5),
        weights,
        label_smoothing=0.0,
        output_bias=bias,
    )
    assert float(sums.loss_sum / sums.token_count) == pytest.approx(1000.5)


def test_without_a_gradient_the_sums_are_the_same(inputs) -> None:
    with_one = label_smoothed_cross_entropy(*inputs, label_smoothing=0.1)
    without = label_smoothed_cross_entropy(
        *inputs, label_smoothing=0.1, gradient_scale=None
    )
    np.testing.assert_array_equal(as_numpy(without), as_numpy(with_one))


def test_no_chunk_is_computed_half_empty(inputs, monkeypatch) -> None:
    # 20 tokens in chunks of at most 13: 10 and 10, not 13 and 13.
    rows, compute_chunk = [], losses._compute_chunk

    def note_rows(hidden, *arguments):
        rows.append(hidden.shape[0])
        return compute_chunk(hidden, *arguments)

    monkeypatch.setattr(losses, "_compute_chunk", note_rows)
    label_smoothed_cross_entropy(*inputs, label_smoothing=0.1, logits_at_once=13 * V)
    assert rows == [10, 10]


def test_sums_of_parts_add_up_to_the_whole(inputs) -> None:
    hidden, embeddings, *rest = inputs
    whole = label_smoothed_cross_entropy(*inputs, label_smoothing=0.1)
    parts = [
        label_smoothed_cross_entropy(
            hidden[rows], embeddings, *(x[rows] for x in rest), label_smoothing=0.1
        )
        for rows in (slice(0, 1), slice(1, 4))
    ]
    added = np.sum([as_numpy(part) for part in parts], axis=0)
    np.testing.assert_allclose(added, as_numpy(whole), rtol=1e-6)


def test_a_batch_of_padding_costs_nothing_and_has_no_gradient(inputs) -> None:
    hidden, embeddings, targets, weights = inputs
    sums, gradients = loss_and_gradients(
        hidden, embeddings, 0 * targets, 0 * weights, label_smoothing=0.1
    )
    assert as_numpy(sums).tolist() == [0.0, 0.0, 0.0]
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, 0.0)


def test_what_stands_in_padding_does_not_matter(inputs) -> None:
    hidden, embeddings, targets, weights = inputs
    padding = weights == 0
    before, gradients = loss_and_gradients(*inputs, label_smoothing=0.1)
    after, other_gradients = loss_and_gradients(
        np.where(padding[..., None], np.float32(50.0), hidden),
        embeddings,
        np.where(padding, 3, targets),
        weights,
        label_smoothing=0.1,
    )
    np.testing.assert_array_equal(as_numpy(after), as_numpy(before))
    for actual, expected in zip(other_gradients, gradients, strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_bfloat16_logits_are_summed_in_float32(inputs) -> None:
    # The embeddings are unit vectors, so the logits are the hidden states, which are
    # exact in bfloat16. Nothing else is rounded.
    _, _, targets, weights = inputs
    rng = np.random.default_rng(6)
    hidden = tf.cast(rng.normal(scale=3.0, size=(B, T, V)), tf.bfloat16)
    units = np.eye(V, dtype="float32")
    sums, gradients = loss_and_gradients(
        hidden, units, targets, weights, label_smoothing=0.1
    )
    assert {part.dtype for part in sums} == {tf.float32}
    assert [part.dtype for part in gradients] == [tf.bfloat16, tf.float32]
    held = tf.cast(hidden, tf.float32).numpy()
    expected = expected_sums(held, units, targets, weights, 0.1)
    np.testing.assert_allclose(as_numpy(sums), expected, rtol=2e-6)


def test_the_gradient_is_scaled_before_it_is_rounded(inputs) -> None:
    """Scaling comes first, so that float16 does not round small gradients to zero."""
    hidden, embeddings, targets, weights = inputs
    small = weights * np.float32(1e-8)
    half = hidden.astype("float16")

    def relative_error(scale: float) -> float:
        sums, (grad_hidden, _) = loss_and_gradients(
            half,
            embeddings,
            targets,
            small,
            label_smoothing=0.1,
            gradient_scale=scale,
        )
        exact = expected_sums(half, embeddings, targets, small, 0.1)
        np.testing.assert_allclose(as_numpy(sums), exact, rtol=2e-3)
        expected, _ = expected_gradients(half, embeddings, targets, small, 0.1)
        actual = grad_hidden.numpy().astype("float64") / scale
        return np.linalg.norm(actual - expected) / np.linalg.norm(expected)

    assert relative_error(1.0) > 0.3
    assert relative_error(2.0**13) < 0.01


def test_other_multiples_of_the_loss_have_other_gradients(inputs) -> None:
    hidden, *rest = map(tf.convert_to_tensor, inputs)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        sums = label_smoothed_cross_entropy(hidden, *rest, label_smoothing=0.1)
        thrice = 3.0 * sums.loss_sum
    expected, _ = expected_gradients(*inputs, 0.1)
    np.testing.assert_allclose(tape.gradient(thrice, hidden), 3 * expected, atol=5e-6)


def test_large_logits_stay_finite(inputs) -> None:
    hidden, *rest = inputs
    far = hidden * np.float32(1e4)
    sums, gradients = loss_and_gradients(far, *rest, label_smoothing=0.1)
    expected = expected_sums(far, *rest, 0.1)
    np.testing.assert_allclose(as_numpy(sums), expected, rtol=1e-5)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_a_smoothing_that_cannot_be_meant_is_refused(inputs, smoothing) -> None:
    message = rf"label_smoothing must be in \[0, 1\)\. Received: {smoothing}"
    with pytest.raises(ValueError, match=message):
        label_smoothed_cross_entropy(*inputs, label_smoothing=smoothing)


def test_the_number_of_words_may_be_two() -> None:
    sums = label_smoothed_cross_entropy(
        tf.constant([[[0.0, 3.0]]]),
        tf.eye(2),
        np.array([[1]]),
        np.ones((1, 1)),
        label_smoothing=0.25,
    )
    # By hand: log(1 + e^-3) for the true word, 3 more for the other.
    expected = np.log1p(np.exp(-3.0)) + 0.25 * 3.0
    assert float(sums.loss_sum) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("jit_compile", [None, True])
def test_bfloat16_gradients_of_confident_predictions_keep_their_size(
    jit_compile,
) -> None:
    # Every token is the same word, predicted with probability 0.903; the target is 0.9.
    # If 0.903 is rounded before the subtraction, to 0.902 or 0.906, half the gradient
    # is lost. The inputs, unit vectors and small integers, are exact in bfloat16.
    tokens, words = 64, 4
    logit = np.log(0.903 / (0.097 / (words - 1)))
    rows = np.tile([[0.0, logit, 0.0, 0.0]], (tokens, 1))
    hidden = tf.cast(rows, tf.bfloat16)[None]
    units = np.eye(words, dtype="float32")
    targets, weights = np.ones((1, tokens), "int32"), np.ones((1, tokens), "float32")
    computed = tf.function(loss_and_gradients, jit_compile=jit_compile, autograph=False)
    _, gradients = computed(hidden, units, targets, weights, label_smoothing=0.1)
    held = tf.cast(hidden, tf.float64).numpy()
    target_distribution = np.full((words,), 0.1 / (words - 1))
    target_distribution[1] = 0.9
    grad_logits = transformer_np.softmax(held) - target_distribution
    grad_embeddings = np.einsum("btv,btd->vd", grad_logits, held)
    for actual, expected in zip(gradients, (grad_logits, grad_embeddings), strict=True):
        error = np.linalg.norm(tf.cast(actual, tf.float64) - expected)
        assert error < 0.02 * np.linalg.norm(expected)
