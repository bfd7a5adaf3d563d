"""Neighborhood attention in blocks against NumPy and a band mask; memory use."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_keras.model.attention import (
    MultiHeadAttention,
    dot_product_attention,
    swap_heads,
    transpose_keys,
)
from t2t_keras.model.masks import neighborhood_mask, segment_mask
from t2t_keras.model.neighborhood_attention import (
    SMALLEST_BLOCK,
    NeighborhoodAttention,
    neighborhood_attention,
)
from tests.reference import transformer_np

B, D, H, K, U = 4, 10, 3, 6, 7
# Shorter than a block, one block, one more token, several blocks, and more.
LENGTHS = (2, 31, 32, 33, 64, 75, 131)
# The smallest, within a block, about a block, larger than a block, and than a sentence.
NEIGHBORHOODS = (1, 5, 33, 35, 63, 301)


def random_segments(rng: np.random.Generator, length: int) -> np.ndarray:
    """Segment ids [B, S]: one sentence, three and padding, random, padding only."""
    rows = np.ones((B, length), "int32")
    rows[1] = 1 + np.arange(length) * 4 // length
    rows[1][rows[1] == 4] = 0
    rows[2] = rng.integers(0, 3, length)
    rows[3] = 0
    return rows


def random_qkv(rng: np.random.Generator, length: int) -> list[tf.Tensor]:
    """Random queries, keys and values."""
    sizes = (K, K, U)
    return [
        tf.constant(rng.normal(size=(B, length, H, size)), tf.float32) for size in sizes
    ]


def legal_pairs(segments: np.ndarray, neighborhood: int) -> np.ndarray:
    """Mask [B, S, S] of pairs: near, of the same sentence, and no padding."""
    place = np.arange(segments.shape[1])
    near = np.abs(place[:, None] - place) <= neighborhood // 2
    same = segments[:, :, None] == segments[:, None, :]
    return near & same & (segments != 0)[:, None, :]


def check_equation_1(length: int, neighborhood: int) -> None:
    rng = np.random.default_rng([length, neighborhood])
    parts, segments = random_qkv(rng, length), random_segments(rng, length)
    attended = np.asarray(neighborhood_attention(*parts, neighborhood, segments))
    assert attended.shape == (B, length, H, U)
    mask = legal_pairs(segments, neighborhood)
    queries, keys, values = (part.numpy().astype("float64") for part in parts)
    for b, h in np.ndindex(B, H):
        expected_SU = transformer_np.attention(
            queries[b, :, h], keys[b, :, h], values[b, :, h], mask[b]
        )
        np.testing.assert_allclose(
            attended[b, :, h], expected_SU, atol=3e-6, err_msg=str(length)
        )


@pytest.mark.parametrize("neighborhood", NEIGHBORHOODS)
def test_it_is_equation_1_over_the_band(neighborhood: int) -> None:
    for length in LENGTHS:
        check_equation_1(length, neighborhood)


def blocked(neighborhood: int) -> Callable[..., tf.Tensor]:
    return lambda *inputs: neighborhood_attention(*inputs[:3], neighborhood, inputs[3])


def masked(neighborhood: int) -> Callable[..., tf.Tensor]:
    def attention(queries, keys, values, segments):
        band = neighborhood_mask(ops.shape(queries)[1], neighborhood)
        mask = segment_mask(segments, segments) & band
        return swap_heads(
            dot_product_attention(
                swap_heads(queries), transpose_keys(keys), swap_heads(values), mask
            )
        )

    return attention


def with_gradients(attention: Callable[..., tf.Tensor]) -> Callable[..., list]:
    """Returns a function that returns outputs and gradients of queries, keys, values.

    Its inputs are those of `attention` and the factors of the outputs in the loss.
    """

    def run(queries, keys, values, segments, factors):
        with tf.GradientTape() as tape:
            tape.watch([queries, keys, values])
            outputs = attention(queries, keys, values, segments)
            total = tf.reduce_sum(outputs * factors)
        gradients = tape.gradient(total, [queries, keys, values])
        return [tf.cast(tensor, tf.float32) for tensor in (outputs, *gradients)]

    return run


def input_specs(dtype: str = "float32") -> list[tf.TensorSpec]:
    shapes = [(None, None, H, size) for size in (K, K, U)]
    return [
        *(tf.TensorSpec(shape, dtype) for shape in shapes),
        tf.TensorSpec((None, None), "int32"),
        tf.TensorSpec(shapes[2], dtype),
    ]


def random_inputs(length: int, neighborhood: int) -> tuple[list, np.ndarray]:
    """Inputs for a function of `with_gradients`; queries with a legal key, [B, S]."""
    rng = np.random.default_rng([3, length, neighborhood])
    segments = random_segments(rng, length)
    seen = legal_pairs(segments, neighborhood).any(-1)
    # No gradient from queries without a legal key, whose outputs are never used.
    factors = rng.normal(size=(B, length, H, U)) * seen[..., None, None]
    inputs = [*random_qkv(rng, length), tf.constant(segments)]
    return [*inputs, tf.constant(factors, tf.float32)], seen


@pytest.mark.parametrize(
    ("neighborhood", "jit_compile"), [(1, False), (5, False), (63, False), (5, True)]
)
def test_values_and_gradients_are_the_masks_in_a_trace_of_any_length(
    neighborhood: int, jit_compile: bool
) -> None:
    traced = tf.function(
        with_gradients(blocked(neighborhood)),
        input_signature=input_specs(),
        jit_compile=jit_compile,
        autograph=False,
    )
    reference = tf.function(
        with_gradients(masked(neighborhood)),
        input_signature=input_specs(),
        autograph=False,
    )
    for length in (1, 33, 100)[: 2 if jit_compile else 3]:
        inputs, seen = random_inputs(length, neighborhood)
        for name, actual, other in zip(
            "oqkv", traced(*inputs), reference(*inputs), strict=True
        ):
            which = seen if name == "o" else np.ones_like(seen)
            assert np.isfinite(actual).all()
            np.testing.assert_allclose(
                actual.numpy()[which], other.numpy()[which], atol=3e-6, err_msg=name
            )


@pytest.mark.parametrize(
    ("dtype", "rounding", "jit_compile"),
    [("bfloat16", 2**-8, True), ("float16", 2**-11, False)],
)
def test_half_precision_rounds_as_the_mask_does(
    dtype: str, rounding: float, jit_compile: bool
) -> None:
    inputs, seen = random_inputs(75, 5)

    def cast(parts: list, target_dtype: str) -> list:
        return [tf.cast(p, target_dtype) if p.dtype.is_floating else p for p in parts]

    rounded = cast(inputs, dtype)
    expected = with_gradients(masked(5))(*cast(rounded, "float32"))
    run = tf.function(
        with_gradients(blocked(5)), jit_compile=jit_compile, autograph=False
    )
    assert blocked(5)(*rounded[:4]).dtype == dtype
    for actual, other in zip(run(*rounded), expected, strict=True):
        off = np.abs(actual - other)[seen]
        # A few roundings in each of three products of numbers near 1.
        assert 0 < off.mean() < 2 * rounding
        assert off.max() < 40 * rounding


def test_a_row_is_the_same_in_any_company() -> None:
    inputs, _ = random_inputs(75, 5)
    together = neighborhood_attention(*inputs[:3], 5, inputs[3])
    for row in range(B):
        part = [tensor[row : row + 1] for tensor in inputs[:4]]
        alone = neighborhood_attention(*part[:3], 5, part[3])
        np.testing.assert_allclose(alone[0], together[row], atol=1e-6)
    others = [tf.concat([tensor[:1], tensor[:3] * 7], 0) for tensor in inputs[:3]]
    among = neighborhood_attention(
        *others, 5, tf.concat([inputs[3][:1], inputs[3][1:]], 0)
    )
    np.testing.assert_array_equal(among[0], together[0])


def test_what_is_out_of_reach_is_not_touched() -> None:
    # Not only masked by -1e9: not even a NaN passes from outside the neighborhood.
    inputs, _ = random_inputs(131, 5)
    queries, keys, values, segments = (tensor.numpy() for tensor in inputs[:4])
    expected = neighborhood_attention(queries, keys, values, 5, segments)
    keys[0, 127:] = values[0, 127:] = np.nan
    actual = neighborhood_attention(queries, keys, values, 5, segments)
    np.testing.assert_array_equal(actual[0, :94], expected[0, :94])
    assert np.isnan(actual[0, 125:]).all()


def tensor_shapes(function: Callable, *specs: tf.TensorSpec) -> list[tuple[int, ...]]:
    """Shapes of all tensors in the graph of a function."""
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    return [
        tuple(output.shape)
        for operation in graph.get_operations()
        for output in operation.outputs
    ]


def largest_tensor(attention: Callable, length: int) -> int:
    """Number of elements of the largest tensor in forward and backward pass."""
    specs = [
        tf.TensorSpec((1, length, *spec.shape[2:]), spec.dtype)
        for spec in input_specs()
    ]
    specs[3] = tf.TensorSpec((1, length), "int32")
    return max(math.prod(s) for s in tensor_shapes(with_gradients(attention), *specs))


@pytest.mark.parametrize("neighborhood", [1, 9, 65])
def test_memory_grows_with_the_length_and_not_its_square(neighborhood: int) -> None:
    few, many = (largest_tensor(blocked(neighborhood), n) for n in (1024, 4096))
    # Scores of a window, or keys and values of all windows and their neighbor blocks.
    window = max(SMALLEST_BLOCK, neighborhood - 1) + neighborhood - 1
    assert few <= 1.1 * 1024 * H * max(window, 2 * U)
    assert few < 1024 * 1024
    assert many <= 4 * few
    # With a mask, memory grows with the square.
    assert largest_tensor(masked(neighborhood), 1024) == H * 1024 * 1024


@pytest.mark.slow
def test_xla_makes_nothing_of_that_size_either() -> None:
    length = 512
    rng = np.random.default_rng(0)
    parts = [
        tf.constant(rng.normal(size=(1, length, H, s)), tf.float32) for s in (K, K, U)
    ]
    arguments = [*parts, tf.ones((1, length), tf.int32), parts[2]]

    def largest_in_xla(attention: Callable) -> int:
        compiled = tf.function(
            with_gradients(attention), jit_compile=True, autograph=False
        )
        text = compiled.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
        shapes = [
            part.split("]")[0]
            for kind in ("f32[", "pred[")
            for part in text.split(kind)[1:]
        ]
        return max(math.prod(map(int, filter(None, s.split(",")))) for s in shapes)

    assert largest_in_xla(blocked(9)) < length * length / 4
    assert largest_in_xla(masked(9)) >= length * length


def build_layers(neighborhood: int) -> tuple[Any, Any]:
    """Returns the layer, and one without a neighborhood with the same weights."""
    restricted = NeighborhoodAttention(H, K, U, neighborhood)
    whole = MultiHeadAttention(H, K, U)
    for layer in (restricted, whole):
        layer.build((None, None, D))
    whole.set_weights(restricted.get_weights())
    return restricted, whole


@pytest.mark.parametrize("length", [7, 75])
def test_the_layer_is_attention_under_a_mask(length: int) -> None:
    rng = np.random.default_rng(length)
    restricted, whole = build_layers(5)
    inputs = rng.normal(size=(B, length, D)).astype("float32")
    segments = random_segments(rng, length)
    for given in (segments[:, None], (segments != 0)[:, None], None):
        same = np.ones_like(segments) if given is None else given[:, 0].astype(int)
        mask = legal_pairs(same, 5)
        actual = np.asarray(restricted(inputs, attention_mask=given))
        expected = np.asarray(whole(inputs, attention_mask=mask))
        np.testing.assert_allclose(actual, expected, atol=2e-6)
        weights = np.asarray(restricted.compute_weights(inputs, None, given))
        assert weights.shape == (B, H, length, length)
        expected = np.asarray(whole.compute_weights(inputs, None, mask))
        np.testing.assert_allclose(weights, expected, atol=2e-6)


def test_a_mask_of_pairs_of_positions_is_refused() -> None:
    restricted, _ = build_layers(5)
    with pytest.raises(ValueError, match="squeeze"):
        restricted(np.ones((B, 7, D), "f"), attention_mask=np.ones((B, 7, 7), bool))


def test_a_memory_is_refused() -> None:
    restricted, _ = build_layers(5)
    inputs = np.ones((B, 7, D), "f")
    with pytest.raises(ValueError, match=r"None. Received: memory of shape .*7"):
        restricted(inputs, inputs)


def test_a_neighborhood_without_a_center_is_refused() -> None:
    for neighborhood in (-3, 0, 4):
        with pytest.raises(ValueError, match=rf"odd number.*Received: {neighborhood}$"):
            NeighborhoodAttention(H, K, U, neighborhood)
            pytest.fail(f"{neighborhood} was accepted")


def test_weights_of_each_block_are_dropped() -> None:
    """Blocks have 32 queries, and two more keys on each side."""
    rng = np.random.default_rng(75)
    parts, segments = random_qkv(rng, 75), random_segments(rng, 75)
    kept = rng.random((B * 3, H, 32, 36)) < 0.6
    attended = np.asarray(
        neighborhood_attention(*parts, 5, segments, lambda weights: weights * kept)
    )
    mask = legal_pairs(segments, 5)
    queries, keys, values = (part.numpy().astype("float64") for part in parts)
    for b, h in np.ndindex(B - 1, H):
        weights_SS = transformer_np.attention_weights(
            queries[b, :, h], keys[b, :, h], mask[b]
        )
        for t, s in np.argwhere(mask[b]):
            block = t // 32
            weights_SS[t, s] *= kept[3 * b + block, h, t % 32, s - 32 * block + 2]
        expected_SU = weights_SS @ values[b, :, h]
        np.testing.assert_allclose(attended[b, :, h], expected_SU, atol=3e-6)


def test_blocks_and_rows_drop_their_own() -> None:
    keys = np.array([7, 2**32 - 1, 0, 8], "uint32")
    # All inputs are equal, so outputs differ only by dropout.
    hidden = np.ones((B, 96, D), "f")
    layer = NeighborhoodAttention(H, K, U, 5, dropout_rate=0.5)
    dropped = np.asarray(layer(hidden, dropout_keys=keys))
    inner = dropped.reshape(B, 3, 32, D)[:, :, 2:-2]
    assert len(np.unique(inner.reshape(B * 3, -1), axis=0)) == B * 3
    some = np.asarray(layer(hidden[:2], dropout_keys=keys[[3, 1]]))
    np.testing.assert_allclose(some, dropped[[3, 1]], atol=1e-6)
    # Without keys nothing is dropped, and all outputs are equal.
    assert np.ptp(np.asarray(layer(hidden)), axis=1).max() < 1e-5
