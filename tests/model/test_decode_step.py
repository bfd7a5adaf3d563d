"""Incremental decoding with a KV cache: equal to decoding all positions at once."""

import numpy as np
import pytest
import tensorflow as tf

from tests.model.architectures import architectures
from tests.model.small_model import (
    ROWS,
    H,
    K,
    S,
    U,
    V,
    shared_model,
    small_batch,
)

STEPS, BEAMS = 4, 2


def beam_inputs() -> np.ndarray:
    """Decoder inputs [B, W, T]: 0, then random tokens that differ between beams."""
    rng = np.random.default_rng(31)
    tokens = rng.integers(1, V, size=(ROWS, BEAMS, STEPS), dtype="int32")
    tokens[..., 0] = 0
    return tokens


def parallel_logits(model) -> np.ndarray:
    """Logits [B, W, T, V] from `decode`, with each beam as a separate sentence."""
    source = np.repeat(small_batch()["encoder_input_tokens"], BEAMS, axis=0)
    logits = model.decode(
        beam_inputs().reshape(ROWS * BEAMS, STEPS),
        model.encode(source),
        (source != 0)[:, None],
    )
    return np.array(tf.cast(logits, "float32")).reshape(ROWS, BEAMS, STEPS, V)


def own_slots(position: int) -> np.ndarray:
    """Visible slots [B, W, X]: each beam sees only its own writes, every W-th slot."""
    own = np.tile(np.eye(BEAMS, dtype=bool), position + 1)
    rest = np.zeros([BEAMS, (STEPS - 1 - position) * BEAMS], bool)
    return np.concatenate([own, rest], axis=1)[None].repeat(ROWS, axis=0)


def step_logits(model, jit_compile: bool | None = None) -> np.ndarray:
    """Logits [B, W, T, V] from `decode_step`, one token of each beam per step."""
    inputs = beam_inputs()

    def run_steps(source):
        state, kernels = model.prefill(source, STEPS * BEAMS), model.decode_kernels()
        logits = []
        for position in range(STEPS):
            tokens = tf.constant(inputs[..., position])
            first_slot, slots = position * BEAMS, own_slots(position)
            one, state = model.decode_step(
                tokens, tf.constant(position), first_slot, slots, state, kernels
            )
            logits.append(tf.cast(one, "float32"))
        return tf.stack(logits, axis=2)

    if jit_compile is not None:
        run_steps = tf.function(run_steps, jit_compile=jit_compile, autograph=False)
    return np.array(run_steps(tf.constant(small_batch()["encoder_input_tokens"])))


@pytest.mark.parametrize(
    "changed", [{}, {"learned_positions": S}, {"encoder_neighborhood": 3}]
)
def test_steps_are_the_whole(changed: dict[str, int]) -> None:
    model = shared_model(**changed)
    actual = step_logits(model)
    np.testing.assert_allclose(actual, parallel_logits(model), atol=2e-5)


@pytest.mark.parametrize("architecture", architectures(), ids=lambda one: one.name)
def test_steps_of_other_architectures_are_the_whole(architecture) -> None:
    model = architecture.model()
    expected = parallel_logits(model)
    np.testing.assert_allclose(step_logits(model), expected, atol=5e-5)


@pytest.mark.slow
def test_steps_under_xla_are_the_whole() -> None:
    model = architectures()[2].model()
    compiled = step_logits(model, jit_compile=True)
    np.testing.assert_allclose(compiled, parallel_logits(model), atol=5e-5)


def test_beams_may_change_places() -> None:
    # As in beam search, the cache is not reordered; the mask selects the ancestors.
    model = shared_model()
    inputs = beam_inputs()
    source = tf.constant(small_batch()["encoder_input_tokens"])
    state, kernels = model.prefill(source, STEPS * BEAMS), model.decode_kernels()
    for position in range(3):
        first_slot, slots = position * BEAMS, own_slots(position)
        _, state = model.decode_step(
            inputs[..., position], position, first_slot, slots, state, kernels
        )

    def last_step(tokens, slots):
        # The state is not modified, so both calls start from the same one.
        logits, _ = model.decode_step(tokens, 3, 3 * BEAMS, slots, state, kernels)
        return np.array(logits)

    straight = last_step(inputs[..., 3], own_slots(3))
    swapped = own_slots(3)
    # Each beam sees the history of the other one and its own newest token.
    swapped[..., : 3 * BEAMS] = swapped[:, ::-1, : 3 * BEAMS]
    crossed = last_step(inputs[:, ::-1, 3], swapped)
    np.testing.assert_allclose(crossed[:, ::-1], straight, atol=1e-6)
    # Tokens that do not move with their history give other logits.
    mismatched = last_step(inputs[..., 3], swapped)
    assert np.abs(mismatched - straight).max() > 1e-2


def test_cross_attention_is_projected_once_per_sentence() -> None:
    model = shared_model()
    state = model.prefill(tf.constant(small_batch()["encoder_input_tokens"]), 10)
    assert tuple(state.source_mask.shape) == (ROWS, 1, S)
    for cache in state.cross_attention:
        assert tuple(cache.keys.shape) == (ROWS, H, S, K)
        assert tuple(cache.values.shape) == (ROWS, H, S, U)
    for cache in state.self_attention:
        assert tuple(cache.keys.shape) == (ROWS, H, 10, K)
        assert tuple(cache.values.shape) == (ROWS, H, 10, U)


def test_bfloat16_steps_are_near_the_whole() -> None:
    model = shared_model(dtype="mixed_bfloat16")
    expected = parallel_logits(model)
    off = np.abs(step_logits(model) - expected)
    assert off.mean() < 0.02 * expected.std()
