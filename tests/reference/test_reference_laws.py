"""Invariants of the NumPy reference model: which positions influence which."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import transformer_np as model
from tests.reference.weights_np import (
    Array,
    AttentionWeights,
    Weights,
    random_weights,
)

SOURCE = (5, 3, 12, 4, 7, 9, 1)
TARGET = (8, 2, 6, 11, 1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170612)


@pytest.fixture
def weights(rng: np.random.Generator) -> Weights:
    return random_weights(rng)


def silent(attention: AttentionWeights) -> AttentionWeights:
    return replace(attention, output=np.zeros_like(attention.output))


def rows_that_differ(before: Array, after: Array) -> list[int]:
    return np.flatnonzero(np.abs(before - after).max(axis=-1) > 1e-9).tolist()


@pytest.mark.parametrize("changed", range(5))
def test_causality(weights: Weights, changed: int) -> None:
    other = list(TARGET)
    other[changed] = 10
    before = model.transformer(SOURCE, TARGET, weights)
    after = model.transformer(SOURCE, other, weights)
    assert rows_that_differ(before, after) == list(range(changed, 5))


def test_without_positions_the_encoder_is_equivariant(
    weights: Weights, rng: np.random.Generator
) -> None:
    order = rng.permutation(7)
    shuffled = [SOURCE[i] for i in order]
    blind = replace(weights, positions=np.zeros((7, 6)))
    straight = model.encode(SOURCE, blind)
    np.testing.assert_allclose(model.encode(shuffled, blind), straight[order])
    # The decoder cannot see the order of the memory's rows, with positions or not.
    kept = [model.decode(TARGET, rows, weights) for rows in (straight, straight[order])]
    np.testing.assert_allclose(kept[0], kept[1])
    placed = model.encode(SOURCE, weights)[order]
    assert np.abs(model.encode(shuffled, weights) - placed).max() > 0.1


def test_padding_changes_no_real_position(weights: Weights) -> None:
    alone = model.encode(SOURCE, weights)
    padded = [*SOURCE, 0, 0, 0]
    np.testing.assert_allclose(model.encode_padded(padded, weights)[:7], alone)
    hidden = model.decode(model.shift_right(TARGET), alone, weights)
    shifted = model.shift_right([*TARGET, 0, 0])
    actual = model.transformer(padded, shifted, weights)[:5]
    np.testing.assert_allclose(actual, model.logits(hidden, weights))


def test_a_source_of_padding_only_gives_a_finite_unconditional_model(
    weights: Weights,
) -> None:
    one, other = ([0] * length for length in (2, 5))
    logits = model.transformer(one, TARGET, weights)
    np.testing.assert_array_equal(logits, model.transformer(other, TARGET, weights))
    assert np.isfinite(logits).all()
    layers = [
        replace(layer, cross_attention=silent(layer.cross_attention))
        for layer in weights.decoder_layers
    ]
    deaf = replace(weights, decoder_layers=layers)
    np.testing.assert_array_equal(logits, model.transformer(SOURCE, TARGET, deaf))


@pytest.mark.parametrize("neighborhood", [1, 3, 5])
@pytest.mark.parametrize("changed", [0, 3, 6])
def test_restricted_attention_reaches_r_half_per_layer(
    weights: Weights, neighborhood: int, changed: int
) -> None:
    other = list(SOURCE)
    other[changed] = 10
    before = model.encode(SOURCE, weights, neighborhood)
    after = model.encode(other, weights, neighborhood)
    reach = 2 * (neighborhood // 2)  # two layers
    expected = [i for i in range(7) if abs(i - changed) <= reach]
    assert rows_that_differ(before, after) == expected


def test_a_wide_neighborhood_is_no_restriction(weights: Weights) -> None:
    full = model.transformer(SOURCE, TARGET, weights)
    wide = model.transformer(SOURCE, TARGET, weights, neighborhood=13)
    np.testing.assert_array_equal(wide, full)


def test_the_restricted_decoder_sees_neither_far_nor_forward(weights: Weights) -> None:
    one_layer = replace(weights, decoder_layers=weights.decoder_layers[:1])
    memory, other = model.encode(SOURCE, weights), [8, 10, 6, 11, 1]
    before = model.decode(TARGET, memory, one_layer, neighborhood=3)
    after = model.decode(other, memory, one_layer, neighborhood=3)
    assert rows_that_differ(before, after) == [1, 2]


def test_the_restricted_model_is_restricted_on_both_sides(weights: Weights) -> None:
    memory = model.encode(SOURCE, weights, 3)
    hidden = model.decode(TARGET, memory, weights, neighborhood=3)
    actual = model.transformer(SOURCE, TARGET, weights, neighborhood=3)
    np.testing.assert_array_equal(actual, model.logits(hidden, weights))
    for one_side_only in (
        model.decode(TARGET, memory, weights),
        model.decode(TARGET, model.encode(SOURCE, weights), weights, neighborhood=3),
    ):
        assert np.abs(one_side_only - hidden).max() > 0.01
