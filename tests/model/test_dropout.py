"""Dropout: the hash of keys, the layer's masks, and refused arguments."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_keras.model.dropout import Dropout, fold_in, mix

KEYS = np.array([0, 1, 2, 7, 2**31, 2**32 - 1], "uint32")


def kept_mask(rate: float, keys: np.ndarray, *shape: int) -> np.ndarray:
    """True where an element of rows of `shape` is kept."""
    ones = np.ones((len(keys), *shape), "float32")
    return np.array(Dropout(rate)(ones, dropout_keys=keys)) != 0


def inverse_mix(word: int) -> int:
    """Inverse of `mix`: xor-shifts undone, factors inverted modulo 2^32."""
    word ^= word >> 16
    word = word * pow(0x846CA68B, -1, 2**32) % 2**32
    word ^= word >> 15 ^ word >> 30
    word = word * pow(0x7FEB352D, -1, 2**32) % 2**32
    return word ^ word >> 16


def test_mix_is_a_bijection() -> None:
    words = np.random.default_rng(1).integers(2**32, size=2000, dtype="uint32")
    words = np.concatenate([words, KEYS])
    mixed = ops.convert_to_numpy(mix(words))
    assert mixed.dtype == np.uint32
    assert [inverse_mix(int(word)) for word in mixed] == words.tolist()


def test_a_flipped_bit_flips_half_of_all_bits() -> None:
    words = np.random.default_rng(2).integers(2**32, size=4000, dtype="uint32")
    mixed = ops.convert_to_numpy(mix(words))
    for bit in range(32):
        flipped = ops.convert_to_numpy(mix(words ^ np.uint32(1 << bit)))
        changed = np.unpackbits((mixed ^ flipped).view("uint8").reshape(-1, 4), axis=1)
        # The standard error of each of the 32 fractions is 0.008.
        assert np.abs(changed.mean(axis=0) - 0.5).max() < 0.045


@pytest.mark.parametrize("make_number", [int, np.uint32, tf.constant])
def test_fold_in_takes_any_integer(make_number: type) -> None:
    folded = ops.convert_to_numpy(fold_in(KEYS, make_number(3)))
    assert folded.dtype == np.uint32
    np.testing.assert_array_equal(folded, fold_in(KEYS, 3))
    np.testing.assert_array_equal(folded, fold_in(KEYS, np.full(len(KEYS), 3)))


def test_fold_in_is_injective_in_either_argument() -> None:
    numbers = np.arange(100_000)
    assert len(np.unique(fold_in(np.full(100_000, 9, "uint32"), numbers))) == 100_000
    assert len(np.unique(fold_in(numbers.astype("uint32"), 4))) == 100_000


def test_folding_small_keys_and_numbers_never_collides() -> None:
    # Random words would collide with probability 0.03.
    keys = np.arange(64, dtype="uint32")
    once = [np.array(fold_in(keys, a)) for a in range(12)]
    twice = [np.array(fold_in(k, b)) for k in once for b in range(12)]
    words = np.concatenate([keys, *once, *twice])
    assert len(np.unique(words)) == len(words)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_fraction_dropped_is_the_rate(rate: float) -> None:
    keys = np.array(fold_in(np.arange(256, dtype="uint32"), 1))
    dropped = ~kept_mask(rate, keys, 64, 64)
    variance = rate * (1 - rate)
    assert dropped.mean() == pytest.approx(rate, abs=5 * (variance / 2**20) ** 0.5)
    # Chi-square test over rows, and over positions in all rows: the sum of n terms has
    # mean n and standard deviation sqrt(2 n).
    for counts, trials in [
        (dropped.sum(axis=(1, 2)), 64 * 64),
        (dropped.sum(axis=0), 256),
        (dropped.sum(axis=(0, 1)), 256 * 64),
    ]:
        chi_square = ((counts - trials * rate) ** 2).sum() / (trials * variance)
        assert chi_square == pytest.approx(
            counts.size, abs=5 * (2 * counts.size) ** 0.5
        )


@pytest.mark.parametrize("keys", ["consecutive", "folded"])
def test_neighbors_are_dropped_independently(keys: str) -> None:
    words = np.arange(64, dtype="uint32")
    words = words if keys == "consecutive" else np.array(fold_in(words, 5))
    rate = 0.3
    sites_KBLD = np.stack(
        [kept_mask(rate, np.array(fold_in(words, i)), 64, 32) for i in (0, 1)]
    )
    signs = (sites_KBLD - (1 - rate)) / (rate * (1 - rate)) ** 0.5
    raw = (kept_mask(rate, words, 64, 32) - (1 - rate)) / (rate * (1 - rate)) ** 0.5
    flat = raw.reshape(64, -1)
    pairs = {
        "neighbors in a vector": (flat[:, 1:], flat[:, :-1]),
        "two apart": (flat[:, 2:], flat[:, :-2]),
        "next position": (raw[:, 1:], raw[:, :-1]),
        "next row": (raw[1:], raw[:-1]),
        "next row, next element": (flat[1:, 1:], flat[:-1, :-1]),
        "next row, element before": (flat[1:, :-1], flat[:-1, 1:]),
        "row after next": (raw[2:], raw[:-2]),
        "next site": (signs[1], signs[0]),
        "site and its key's own": (signs[0], raw),
        "next site, next row": (signs[1, 1:], signs[0, :-1]),
    }
    for name, (one, other) in pairs.items():
        # The correlation of n independent pairs has standard deviation n^-0.5.
        assert abs((one * other).mean()) * one.size**0.5 < 4.5, name


def test_no_two_rows_drop_alike() -> None:
    masks = kept_mask(0.1, np.arange(500, dtype="uint32"), 40, 8).reshape(500, -1)
    assert len(np.unique(masks, axis=0)) == 500


def test_a_row_drops_the_same_in_any_company() -> None:
    whole = kept_mask(0.4, KEYS, 9, 6)
    some = [4, 0, 3]
    np.testing.assert_array_equal(kept_mask(0.4, KEYS[some], 9, 6), whole[some])
    # The padding of the row does not matter either.
    np.testing.assert_array_equal(kept_mask(0.4, KEYS, 5, 6), whole[:, :5])


def test_what_is_kept_is_scaled_up_and_the_gradient_with_it() -> None:
    inputs = tf.constant(np.random.default_rng(3).normal(size=(6, 9, 5)), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = Dropout(0.25)(inputs, dropout_keys=KEYS)
    mask = kept_mask(0.25, KEYS, 9, 5)
    np.testing.assert_allclose(outputs, inputs * mask / 0.75, rtol=1e-6)
    gradient = tape.gradient(outputs, inputs)
    np.testing.assert_allclose(gradient, mask / 0.75, rtol=1e-6)


@pytest.mark.parametrize("shape", [(None, None, None), (None, None, 5), (6, 9, 5)])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_masks_are_bit_equal_however_computed(shape: tuple, jit_compile: bool) -> None:
    inputs = np.random.default_rng(4).normal(size=(6, 9, 5)).astype("float32")
    layer = Dropout(0.7)
    eager = layer(inputs, dropout_keys=KEYS)
    traced = tf.function(
        lambda x, keys: layer(x, dropout_keys=keys),
        input_signature=[tf.TensorSpec(shape), tf.TensorSpec([None], tf.uint32)],
        jit_compile=jit_compile,
        autograph=False,
    )
    np.testing.assert_array_equal(traced(inputs, KEYS), eager)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_rows_may_have_any_shape(rank: int) -> None:
    shape = (3, 5, 4)[: rank - 1]
    whole = kept_mask(0.5, KEYS, 3, 5, 4)
    some = kept_mask(0.5, KEYS, *shape)
    assert some.shape == (6, *shape)
    # The elements of a row are numbered consecutively, so the first ones agree.
    size = int(np.prod(shape))
    np.testing.assert_array_equal(some.reshape(6, -1), whole.reshape(6, -1)[:, :size])


def test_nothing_is_dropped_without_keys_or_at_rate_0() -> None:
    inputs = np.ones((6, 50), "float32")
    np.testing.assert_array_equal(Dropout(0.9)(inputs), inputs)
    np.testing.assert_array_equal(Dropout(0.0)(inputs, dropout_keys=KEYS), inputs)


def test_bfloat16_stays_bfloat16_and_drops_the_same() -> None:
    ones = tf.ones((6, 9, 5), tf.bfloat16)
    outputs = Dropout(0.5, dtype="mixed_bfloat16")(ones, dropout_keys=KEYS)
    assert outputs.dtype == "bfloat16"
    np.testing.assert_array_equal(
        ops.cast(outputs, "float32"), 2.0 * kept_mask(0.5, KEYS, 9, 5)
    )


def test_rates_that_make_no_sense_are_refused() -> None:
    for rate in (-0.1, 1.0, 1.5, float("nan")):
        message = rf"must be in \[0, 1\)\. Received: {rate}"
        with pytest.raises(ValueError, match=message):
            Dropout(rate)
            pytest.fail(f"{rate} was taken")
