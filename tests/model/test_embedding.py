"""Shared embedding against NumPy, and positional encoding against its formula."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_keras.model.embedding import (
    LearnedPositionEncoding,
    SharedEmbedding,
    SinusoidalPositionEncoding,
)
from tests.reference import transformer_np

V, D_MODEL = 13, 6
B, L, D = 3, 7, 10
TOKENS = ((5, 3, 12, 0), (0, 0, 0, 0), (1, 5, 5, 2))


@pytest.fixture
def layer() -> SharedEmbedding:
    layer = SharedEmbedding(V, D_MODEL)
    layer.build()
    layer.embeddings.assign(np.random.default_rng(7).normal(size=(V, D_MODEL)))
    return layer


def test_vectors_are_scaled_and_padding_is_zero(layer: SharedEmbedding) -> None:
    table = layer.embeddings.numpy().astype("float64")
    expected = np.array(
        [
            [table[t] * np.sqrt(6) if t else np.zeros(D_MODEL) for t in row]
            for row in TOKENS
        ]
    )
    # The embedding row of padding is not zero: it has a logit.
    assert table[0].any()
    np.testing.assert_allclose(layer(np.array(TOKENS)), expected, atol=1e-6)


def test_logits_are_unscaled_products_with_every_row(layer: SharedEmbedding) -> None:
    hidden = np.random.default_rng(8).normal(size=(2, 3, D_MODEL))
    expected = hidden @ layer.embeddings.numpy().astype("float64").T
    logits = layer.logits(hidden.astype("f"))
    assert tuple(logits.shape) == (2, 3, V)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_an_output_matrix_of_its_own_and_a_bias_make_the_logits() -> None:
    layer = SharedEmbedding(V, D_MODEL, tie_output=False, use_output_bias=True)
    layer.build()
    rng = np.random.default_rng(8)
    matrix, bias = rng.normal(size=(V, D_MODEL)), rng.normal(size=V)
    layer.output_matrix.assign(matrix)
    layer.output_bias.assign(bias)
    hidden = rng.normal(size=(2, 3, D_MODEL))
    expected = hidden @ matrix.T + bias
    for kernel in (None, layer.output_kernel()):
        logits = layer.logits(hidden.astype("f"), kernel)
        np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_one_matrix_takes_both_gradients(layer: SharedEmbedding) -> None:
    hidden = np.random.default_rng(9).normal(size=(1, 1, D_MODEL)).astype("f")
    with tf.GradientTape() as tape:
        looked_up = tf.reduce_sum(layer(np.array([[3, 3, 0]])))
        loss = looked_up + tf.reduce_sum(layer.logits(hidden))
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.embeddings.value))
    expected = np.tile(hidden[0], (V, 1)).astype("float64")
    expected[3] += 2 * np.sqrt(D_MODEL)
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


def test_scale_and_products_are_bfloat16_where_the_policy_says() -> None:
    layer = SharedEmbedding(V, D_MODEL, dtype="mixed_bfloat16")
    assert layer(np.array(TOKENS)).dtype == "bfloat16"
    assert layer.logits(tf.ones((1, 1, D_MODEL), tf.bfloat16)).dtype == "bfloat16"
    assert layer.embeddings.dtype == "float32"


def test_embeddings_start_as_a_normal_of_unit_variance_after_scaling() -> None:
    layer = SharedEmbedding(600, 64)
    layer.build()
    unit = layer.embeddings.numpy() * 64**0.5
    n = unit.size
    assert unit.mean() == pytest.approx(0, abs=5 * n**-0.5)
    assert unit.var() == pytest.approx(1, abs=5 * (2 / n) ** 0.5)
    # 4.55 % of a normal distribution is beyond two standard deviations, and 0 % of a
    # truncated one.
    beyond = (np.abs(unit) > 2).mean()
    assert beyond == pytest.approx(0.0455, abs=5 * (0.0455 / n) ** 0.5)


def test_a_shared_output_kernel_changes_no_logit(layer: SharedEmbedding) -> None:
    hidden = np.random.default_rng(10).normal(size=(2, 3, D_MODEL)).astype("f")
    kernel = layer.output_kernel()
    assert tuple(kernel.shape) == (D_MODEL, V)
    expected = hidden @ layer.embeddings.numpy().astype("float64").T
    np.testing.assert_allclose(layer.logits(hidden, kernel), expected, atol=1e-5)
    # The given kernel is used, not computed again.
    np.testing.assert_allclose(
        layer.logits(hidden, 2.0 * kernel), 2 * expected, atol=1e-5
    )


def test_half_precision_has_no_kernel_to_share() -> None:
    layer = SharedEmbedding(V, D_MODEL, dtype="bfloat16")
    layer.build()
    assert layer.output_kernel() is None


def test_sinusoids_are_the_formula_added() -> None:
    embeddings = np.random.default_rng(1).normal(size=(B, L, D))
    expected = embeddings + transformer_np.sinusoids(L, D)
    actual = SinusoidalPositionEncoding()(embeddings.astype("f"))
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_positions_hold_far_out() -> None:
    # A float32 angle of 1,000 has an error of up to 3e-5.
    codes = SinusoidalPositionEncoding()(np.zeros((1, 1024, 64), "f"))
    expected = transformer_np.sinusoids(1024, 64)
    np.testing.assert_allclose(codes[0], expected, atol=1e-4)


def test_layouts_and_first_positions_are_those_of_the_reference() -> None:
    zeros = np.zeros((1, L, D), "f")
    for layout in ("halves", "halves_t2t"):
        for first in (0, 2):
            layer = SinusoidalPositionEncoding(layout=layout, first_position=first)
            expected = transformer_np.other_sinusoids(first + L, D, layout)[first:]
            np.testing.assert_allclose(layer(zeros)[0], expected, atol=1e-5)
    layer = SinusoidalPositionEncoding(first_position=3)
    expected = transformer_np.sinusoids(3 + L, D)[3:]
    np.testing.assert_allclose(layer(zeros)[0], expected, atol=1e-5)
    # With a width of 2 there is one wavelength, which is the shortest.
    narrow = SinusoidalPositionEncoding(layout="halves_t2t")(zeros[..., :2])[0]
    table = np.stack([np.sin(np.arange(L)), np.cos(np.arange(L))], axis=-1)
    np.testing.assert_allclose(narrow, table, atol=1e-5)


def test_learned_vectors_before_the_first_position_are_unused() -> None:
    layer = LearnedPositionEncoding(L, first_position=2)
    codes = layer(np.zeros((1, L - 2, D), "f"))
    np.testing.assert_array_equal(codes[0], layer.positions.numpy()[2:])
    step = layer(np.zeros((1, 1, D), "f"), positions=1)
    np.testing.assert_array_equal(step[0], layer.positions.numpy()[3:4])
    with pytest.raises(ValueError, match=r"vectors for 5 positions\. Received: 6"):
        layer(np.zeros((1, L - 1, D), "f"))


@pytest.mark.parametrize("position", [3, tf.constant(3), [3], [[3]]])
def test_one_position_for_a_token_each(position) -> None:
    # As in incremental decoding: one token of every beam, all at the same position.
    zeros = np.zeros((1, L, D), "f")
    for layer in (SinusoidalPositionEncoding(), LearnedPositionEncoding(L)):
        whole = layer(zeros)
        newest = layer(np.zeros((B, 1, D), "f"), positions=position)
        np.testing.assert_allclose(newest, [whole[0, 3:4]] * B, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_every_token_may_have_a_position_of_its_own(jit_compile: bool) -> None:
    rng = np.random.default_rng(3)
    embeddings = rng.normal(size=(B, L, D)).astype("f")
    positions = rng.integers(0, 2 * L, size=(B, L), dtype="int32")
    learned = LearnedPositionEncoding(2 * L)
    learned.build((None, None, D))
    tables = transformer_np.sinusoids(2 * L, D), learned.positions.numpy()
    for layer, table in zip(
        (SinusoidalPositionEncoding(), learned), tables, strict=True
    ):
        traced = tf.function(layer, jit_compile=jit_compile, autograph=False)
        actual = traced(embeddings, positions=tf.constant(positions))
        np.testing.assert_allclose(actual, embeddings + table[positions], atol=1e-5)


def test_rows_longer_than_the_learned_positions_may_restart() -> None:
    layer = LearnedPositionEncoding(4)
    positions = np.array([[0, 1, 2, 3, 0, 1]], "int32")
    codes = layer(np.zeros((1, 6, D), "f"), positions=positions)
    np.testing.assert_array_equal(codes[0], layer.positions.numpy()[positions[0]])


def test_neighbors_stay_apart_under_bfloat16() -> None:
    # bfloat16 represents all integers up to 256, but not beyond.
    exact = SinusoidalPositionEncoding()(np.zeros((1, 600, 32), "f"))
    mixed = SinusoidalPositionEncoding(dtype="mixed_bfloat16")
    rounded = mixed(np.zeros((1, 600, 32), "f"))
    np.testing.assert_array_equal(rounded, ops.cast(exact, "bfloat16"))
    steps = np.abs(np.diff(ops.cast(rounded, "float32")[0], axis=0)).max(-1)
    assert steps.min() > 0.1


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs an even model width.*\(1, 2, 5\)"):
        SinusoidalPositionEncoding()(np.zeros((1, 2, 5), "f"))


def test_learned_vectors_are_added_in_order() -> None:
    layer = LearnedPositionEncoding(L + 2)
    embeddings = np.random.default_rng(2).normal(size=(B, L, D)).astype("f")
    actual = layer(embeddings)
    table = layer.positions.numpy()
    assert table.shape == (L + 2, D)
    np.testing.assert_allclose(actual, embeddings + table[:L], atol=1e-6)


def test_learned_vectors_start_at_the_power_of_a_sinusoid() -> None:
    layer = LearnedPositionEncoding(500)
    layer.build((None, None, 64))
    power = (layer.positions.numpy() ** 2).mean()
    sinusoids = (transformer_np.sinusoids(500, 64) ** 2).mean()
    assert power == pytest.approx(sinusoids, abs=5 * 0.5 * (2 / 32_000) ** 0.5)


def test_past_the_last_learned_position_comes_the_last_one_again() -> None:
    layer = LearnedPositionEncoding(4)
    codes = layer(np.zeros((1, 3, D), "f"), positions=[2, 3, 4])
    table = layer.positions.numpy()
    np.testing.assert_array_equal(codes[0], table[[2, 3, 3]])


def test_more_tokens_than_learned_positions_are_refused() -> None:
    layer = LearnedPositionEncoding(4)
    message = r"learned vectors for 4 positions\. Received: 5 tokens\..*sinusoids"
    with pytest.raises(ValueError, match=message):
        layer(np.zeros((1, 5, D), "f"))
    traced = tf.function(layer, autograph=False)
    with pytest.raises(ValueError, match=message):
        traced(tf.zeros((1, 5, D)))
