"""Candidates of a beam search step against a full log-softmax and sort in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.candidates import best_candidates
from t2t_keras.decoding.settings import BeamSearchSettings

PAD = 0


def expected_candidates(logits, live, must_end, vocabulary, count, eos_id):
    """Returns parents, tokens and log probabilities over all W x V continuations."""
    logits = logits.astype(np.float64)
    peak = logits.max(axis=-1, keepdims=True)
    totals = peak + np.log(np.exp(logits - peak).sum(axis=-1, keepdims=True))
    log_probs = live[..., None] + logits - totals
    log_probs[..., PAD] = log_probs[..., vocabulary:] = -np.inf
    end = log_probs[must_end, :, eos_id]
    log_probs[must_end] = -np.inf
    log_probs[must_end, :, eos_id] = end
    flat = log_probs.reshape(len(logits), -1)
    index = np.argsort(-flat, axis=1, kind="stable")[:, :count]
    values = np.take_along_axis(flat, index, axis=1)
    return index // logits.shape[-1], index % logits.shape[-1], values


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("beam_size", "width", "vocabulary", "eos_id"),
    [(3, 11, 11, 1), (3, 11, 7, 4), (4, 3, 3, 2), (1, 6, 6, 1), (2, 700, 611, 1)],
)
def test_they_are_the_best_of_all_continuations(
    beam_size, width, vocabulary, eos_id, compiled
):
    generator = np.random.default_rng(width + eos_id)
    logits = generator.normal(size=[5, beam_size, width]).astype(np.float32) * 3
    logits[1, :, PAD] = 30.0  # likeliest, not allowed, but part of the sum
    logits[3] += 1e4
    live = -np.abs(generator.normal(size=[5, beam_size])).astype(np.float32)
    live[2, 1:] = -np.inf
    must_end = np.array([False, False, False, True, True])
    settings = BeamSearchSettings(beam_size=beam_size, eos_id=eos_id)

    @tf.function(jit_compile=compiled, autograph=False)
    def candidates():
        return best_candidates(
            tf.constant(logits),
            tf.constant(live),
            tf.constant(must_end),
            vocabulary_size=vocabulary,
            settings=settings,
        )

    parents, tokens, log_probs = [part.numpy() for part in candidates()]
    expected = expected_candidates(
        logits, live, must_end, vocabulary, settings.candidates, eos_id
    )
    loose = np.array([1e-5, 1e-5, 1e-5, 2e-3, 1e-5])[:, None]  # 1e4 is coarse
    np.testing.assert_array_equal(np.isfinite(log_probs), np.isfinite(expected[2]))
    with np.errstate(invalid="ignore"):
        errors = np.nan_to_num(np.abs(log_probs - expected[2]))
    assert np.all(errors <= loose * np.maximum(1, np.nan_to_num(-expected[2])))
    possible = np.isfinite(expected[2])
    np.testing.assert_array_equal(parents[possible], expected[0][possible])
    np.testing.assert_array_equal(tokens[possible], expected[1][possible])


def test_half_precision_logits_are_summed_in_float32():
    logits = tf.cast(tf.random.normal([2, 3, 5000]), tf.bfloat16)
    live = tf.zeros([2, 3])
    must_end = tf.constant([False, False])
    settings = BeamSearchSettings(beam_size=3)
    found, wanted = [
        best_candidates(x, live, must_end, vocabulary_size=5000, settings=settings)
        for x in (logits, tf.cast(logits, tf.float32))
    ]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found.log_probs.dtype == tf.float32


def test_what_is_not_a_number_is_impossible():
    logits = np.random.default_rng(0).normal(size=[2, 2, 9]).astype(np.float32)
    logits[0, 1, 5] = np.nan
    found = best_candidates(
        logits,
        tf.zeros([2, 2]),
        tf.constant([False, False]),
        vocabulary_size=9,
        settings=BeamSearchSettings(beam_size=2),
    )
    possible = np.isfinite(found.log_probs)
    assert possible.all(axis=1).tolist() == [True, True]
    assert not np.any(found.parents.numpy()[0])  # all from the finite one


@pytest.mark.parametrize("width", [6, None])
def test_logits_too_narrow_or_of_unknown_width_are_refused(width):
    def candidates(logits):
        return best_candidates(
            logits,
            tf.zeros([1, 2]),
            tf.constant([False]),
            vocabulary_size=7,
            settings=BeamSearchSettings(beam_size=2),
        )

    message = rf"at least vocabulary_size=7\. Received: .*2, {width}"
    with pytest.raises(ValueError, match=message):
        tf.function(candidates, autograph=False).get_concrete_function(
            tf.TensorSpec([1, 2, width])
        )
