"""Decoding token by token is decoding at once."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.models.transformer import Memory
from tests.models.small_model import (
    EMPTY_ROW,
    ROWS,
    H,
    K,
    S,
    U,
    V,
    small_batch,
    small_model,
    small_weights,
)
from tests.reference import transformer_np

STEPS, BEAMS, ROOM = 6, 2, 8


def beam_inputs() -> np.ndarray:
    """[B, W, T]: each beam its own tokens after the zero it starts with."""
    rng = np.random.default_rng(31)
    tokens = rng.integers(1, V, size=(ROWS, BEAMS, STEPS), dtype="int32")
    tokens[..., 0] = 0
    return tokens


def whole_logits(model) -> np.ndarray:
    """[B, W, T, V] from `decode`, each beam a sentence of its own."""
    source = np.repeat(small_batch()["encoder_input_tokens"], BEAMS, axis=0)
    logits = model.decode(
        beam_inputs().reshape(ROWS * BEAMS, STEPS),
        model.encode(source),
        (source != 0)[:, None],
    )
    return np.array(tf.cast(logits, "float32")).reshape(ROWS, BEAMS, STEPS, V)


def step_logits(model, step) -> np.ndarray:
    """[B, W, T, V] from `step`, one token of each beam after the other."""
    source, inputs = small_batch()["encoder_input_tokens"], beam_inputs()
    memory = model.remember(source)
    caches = model.empty_caches(ROWS, BEAMS, ROOM)
    logits = []
    for position in range(STEPS):
        one, caches = step(
            tf.constant(inputs[..., position]), tf.constant(position), caches, memory
        )
        logits.append(np.array(tf.cast(one, "float32")))
    return np.stack(logits, axis=2)


@pytest.mark.parametrize("positions", ["sinusoids", "learned"])
def test_steps_are_the_whole(positions: str) -> None:
    learned = STEPS + 3 if positions == "learned" else None
    model = small_model(small_weights(learned), learned_positions=learned)
    actual = step_logits(model, model.decode_step)
    np.testing.assert_allclose(actual, whole_logits(model), atol=2e-5)


def test_steps_are_the_papers() -> None:
    weights = small_weights()
    actual = step_logits(model := small_model(weights), model.decode_step)
    for row, source in enumerate(small_batch()["encoder_input_tokens"]):
        if row == EMPTY_ROW:
            continue
        for beam in range(BEAMS):
            expected = transformer_np.transformer(
                source, beam_inputs()[row, beam], weights
            )
            np.testing.assert_allclose(actual[row, beam], expected, atol=5e-5)


def test_compiled_steps_are_the_whole() -> None:
    model = small_model(small_weights())
    traces = []

    def step(*arguments):
        traces.append(1)
        return model.decode_step(*arguments)

    actual = step_logits(model, tf.function(step, jit_compile=True))
    np.testing.assert_allclose(actual, whole_logits(model), atol=2e-5)
    assert len(traces) == 1


def test_a_restricted_encoder_decodes_the_same() -> None:
    model = small_model(small_weights(), encoder_neighborhood=3)
    source = small_batch()["encoder_input_tokens"]
    repeated = np.repeat(source, BEAMS, axis=0)
    expected = model.decode(
        beam_inputs().reshape(-1, STEPS),
        model.encode(repeated),
        (repeated != 0)[:, None],
    )
    actual = step_logits(model, model.decode_step)
    np.testing.assert_allclose(actual.reshape(-1, STEPS, V), expected, atol=2e-5)


def test_beams_may_change_places() -> None:
    # What a beam search does: caches are gathered along W, the memory is not.
    model = small_model(small_weights())
    source, inputs = small_batch()["encoder_input_tokens"], beam_inputs()
    memory = model.remember(source)
    caches = model.empty_caches(ROWS, BEAMS, ROOM)
    for position in range(3):
        _, caches = model.decode_step(inputs[..., position], position, caches, memory)
    swapped = [{n: room[:, ::-1] for n, room in cache.items()} for cache in caches]
    straight, _ = model.decode_step(inputs[..., 3], 3, caches, memory)
    crossed, _ = model.decode_step(inputs[:, ::-1, 3], 3, swapped, memory)
    np.testing.assert_allclose(crossed[:, ::-1], straight, atol=1e-6)
    # Tokens that do not move with their caches are another sentence.
    mismatched, _ = model.decode_step(inputs[..., 3], 3, swapped, memory)
    assert np.abs(mismatched - straight).max() > 1e-2


def test_memory_is_once_a_sentence_and_caches_once_a_beam() -> None:
    model = small_model(small_weights())
    memory = model.remember(small_batch()["encoder_input_tokens"])
    assert isinstance(memory, Memory)
    assert tuple(memory.mask.shape) == (ROWS, 1, S)
    for cache in memory.caches:
        assert tuple(cache["keys"].shape) == (ROWS, S, H, K)
        assert tuple(cache["values"].shape) == (ROWS, S, H, U)
    for cache in model.empty_caches(ROWS, BEAMS, ROOM):
        assert tuple(cache["keys"].shape) == (ROWS, BEAMS, ROOM, H, K)
        assert tuple(cache["values"].shape) == (ROWS, BEAMS, ROOM, H, U)


def test_bfloat16_steps_are_near_the_whole() -> None:
    model = small_model(small_weights(), dtype="mixed_bfloat16")
    caches = model.empty_caches(ROWS, BEAMS, ROOM)
    assert all(r.dtype == "bfloat16" for cache in caches for r in cache.values())
    expected = whole_logits(model)
    off = np.abs(step_logits(model, model.decode_step) - expected)
    assert off.mean() < 0.02 * expected.std()
