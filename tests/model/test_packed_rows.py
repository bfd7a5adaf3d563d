"""Packed rows: several pairs in a row give the same results as each pair alone."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model import transformer
from tests.model.architectures import architectures
from tests.model.small_model import (
    V,
    compute_logits,
    shared_model,
    small_weights,
)
from tests.reference import transformer_np
from tests.reference.weights_np import Weights

# Three rows: three pairs without padding, three with padding, and one pair alone.
# Pairs of a row differ in length; one pair has a single token on each side, and one an
# empty source.
S, T = 11, 9
LENGTHS = (((4, 3), (1, 1), (6, 5)), ((2, 5), (0, 2), (5, 1)), ((7, 4),))
# For float32.
TOLERANCE = 5e-5


def pairs() -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Random pairs (source, target), by row."""
    rng = np.random.default_rng(31)
    return [
        [
            (rng.integers(1, V, source), rng.integers(1, V, target))
            for source, target in row
        ]
        for row in LENGTHS
    ]


def packed_batch() -> dict[str, np.ndarray]:
    """Packed batch of the pairs, filled row by row, with targets."""
    rows = len(LENGTHS)
    names = ("input_tokens", "segment_ids", "positions")
    batch = {f"encoder_{name}": np.zeros([rows, S], "int32") for name in names}
    batch |= {f"decoder_{name}": np.zeros([rows, T], "int32") for name in names}
    batch["decoder_target_tokens"] = np.zeros([rows, T], "int32")
    for row, members in enumerate(pairs()):
        at = [0, 0]
        for segment, (source, target) in enumerate(members, start=1):
            shifted = np.array([0, *target[:-1]])
            for side, (kind, tokens) in enumerate(
                (("encoder", source), ("decoder", shifted))
            ):
                where = slice(at[side], at[side] + len(tokens))
                batch[f"{kind}_input_tokens"][row, where] = tokens
                batch[f"{kind}_segment_ids"][row, where] = segment
                batch[f"{kind}_positions"][row, where] = np.arange(len(tokens))
                if kind == "decoder":
                    batch["decoder_target_tokens"][row, where] = target
                at[side] += len(tokens)
    return batch


def pair_batches() -> list[dict[str, np.ndarray]]:
    """A separate batch for each pair, with two positions of padding on each side."""
    return [
        {
            name: np.array([[*tokens, 0, 0]], "int32")
            for name, tokens in (
                ("encoder_input_tokens", source),
                ("decoder_input_tokens", (0, *target[:-1])),
                ("decoder_target_tokens", target),
            )
        }
        for row in pairs()
        for source, target in row
    ]


def real_logits(batch: dict[str, np.ndarray], logits: np.ndarray) -> np.ndarray:
    """Logits [tokens, V] of all real tokens, pair after pair."""
    return logits[batch["decoder_target_tokens"] > 0]


def reference(
    neighborhood: int | None = None,
    learned: int | None = None,
    weights: Weights | None = None,
) -> np.ndarray:
    """Concatenated float64 logits of each pair alone."""
    weights = weights or small_weights(learned)
    logits = []
    for source, target in (pair for row in pairs() for pair in row):
        fed = transformer_np.shift_right(target)
        memory_SD = transformer_np.encode(source, weights, neighborhood)
        hidden_TD = transformer_np.decode(fed, memory_SD, weights, source)
        logits.append(transformer_np.logits(hidden_TD, weights))
    return np.concatenate(logits)


def max_error(model: Any, batch: dict[str, np.ndarray], expected: np.ndarray) -> float:
    return np.abs(real_logits(batch, compute_logits(model, batch)) - expected).max()


@pytest.mark.parametrize(
    ("changed", "neighborhood", "learned"),
    [
        ({}, None, None),
        # As many positions as the longest sentence needs, fewer than in a row.
        ({"learned_positions": 7}, None, 7),
        ({"encoder_neighborhood": 3}, 3, None),
    ],
)
def test_a_pair_in_a_row_is_the_pair_alone(changed, neighborhood, learned) -> None:
    model = shared_model(**changed)
    expected = reference(neighborhood, learned)
    assert max_error(model, packed_batch(), expected) < TOLERANCE


@pytest.mark.parametrize("architecture", architectures(), ids=lambda one: one.name)
def test_so_it_is_with_other_architectures(architecture) -> None:
    model, weights = architecture.model(), architecture.weights()
    expected = reference(architecture.neighborhood, weights=weights)
    batch = packed_batch()
    assert max_error(model, batch, expected) < TOLERANCE
    # The content of padding must not matter, whatever its position.
    for kind in ("encoder", "decoder"):
        is_padding = batch[f"{kind}_segment_ids"] == 0
        batch[f"{kind}_positions"][is_padding] = 5
        batch[f"{kind}_input_tokens"][is_padding] = 3
    assert max_error(model, batch, expected) < TOLERANCE


@pytest.fixture(scope="module")
def model() -> transformer.Transformer:
    return shared_model()


def loss_and_gradients(model: Any, batch: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Summed cross-entropy of the real tokens, and its gradients."""
    weights = [weight.value for weight in model.trainable_variables]
    target = batch["decoder_target_tokens"]
    with tf.GradientTape() as tape:
        costs = keras.losses.sparse_categorical_crossentropy(
            target, model(batch), from_logits=True
        )
        loss = tf.reduce_sum(tf.where(target > 0, costs, 0.0))
    gradients = tape.gradient(loss, weights)
    return [loss.numpy(), *(tf.convert_to_tensor(g).numpy() for g in gradients)]


def test_loss_and_gradients_are_the_sums_of_the_pairs(model) -> None:
    together = loss_and_gradients(model, packed_batch())
    parts = [loss_and_gradients(model, batch) for batch in pair_batches()]
    # Summed in float64, so that the sum adds no rounding error.
    sums = [
        np.sum(np.array(part, "float64"), axis=0) for part in zip(*parts, strict=True)
    ]
    assert together[0] == pytest.approx(sums[0], rel=1e-6)
    for i, expected in enumerate(sums[1:], 1):
        # Rounding is relative to the terms, which partly cancel in the sum.
        size = sum(np.linalg.norm(part[i]) for part in parts)
        assert size > 0
        assert np.linalg.norm(together[i] - expected) < 1e-6 * size


def test_no_token_of_one_pair_reaches_another(model) -> None:
    batch = packed_batch()
    before = compute_logits(model, batch)
    for kind in ("encoder", "decoder"):
        for segment in (1, 2, 3):
            moved = {name: array.copy() for name, array in batch.items()}
            here = moved[f"{kind}_segment_ids"] == segment
            tokens = moved[f"{kind}_input_tokens"]
            tokens[here] = (tokens[here] + 5) % (V - 1) + 1
            off = np.abs(compute_logits(model, moved) - before).max(-1)
            own = (batch["decoder_segment_ids"] == segment) & here.any(1)[:, None]
            assert (off[own] > 1e-4).any()
            others = (batch["decoder_segment_ids"] != segment) & (
                batch["decoder_segment_ids"] > 0
            )
            np.testing.assert_array_equal(off[others], 0)


def test_rows_of_padding_are_finite_and_change_nothing(model) -> None:
    batch = packed_batch()
    more = {name: np.pad(array, [(0, 2), (0, 0)]) for name, array in batch.items()}
    logits = compute_logits(model, more)
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits[:-2], compute_logits(model, batch), atol=1e-5)
    gradients = loss_and_gradients(model, more)
    for found, expected in zip(
        gradients, loss_and_gradients(model, batch), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_logits_agree_under_xla_and_in_a_trace_of_any_shape(model) -> None:
    batch = packed_batch()
    names = [name for name in batch if name != "decoder_target_tokens"]
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in names}
    traced = tf.function(
        model, input_signature=[spec], jit_compile=True, autograph=False
    )
    logits = traced({name: batch[name] for name in names}).numpy()
    np.testing.assert_allclose(
        real_logits(batch, logits), reference(), atol=TOLERANCE, rtol=1e-4
    )
