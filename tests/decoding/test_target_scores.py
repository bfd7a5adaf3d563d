"""Scoring of given targets: log probabilities against the paper in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.transformer_search import target_log_probs
from tests.model.architectures import architectures
from tests.model.small_model import (
    SOURCE_LENGTHS,
    TARGET_LENGTHS,
    S,
    T,
    random_tokens,
    shared_model,
    small_weights,
)
from tests.reference import transformer_np

# The error of the wrong variant below is more than 100 times larger.
TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def model():
    return shared_model()


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(31)
    return random_tokens(rng, SOURCE_LENGTHS, S), random_tokens(rng, TARGET_LENGTHS, T)


def reference(source, target, shift=transformer_np.shift_right, weights=None):
    weights = weights or small_weights()
    rows = []
    for source_S, target_T in zip(source, target, strict=True):
        memory_SD = transformer_np.encode_padded(source_S, weights)
        hidden_TD = transformer_np.decode(shift(target_T), memory_SD, weights, source_S)
        log_probs_TV = transformer_np.log_softmax(
            transformer_np.logits(hidden_TD, weights)
        )
        row = log_probs_TV[np.arange(len(target_T)), target_T]
        rows.append(np.where(target_T == 0, 0.0, row))
    return np.array(rows)


def max_error(actual, expected):
    """Largest absolute error over all rows, that of an empty source too."""
    return np.abs(np.asarray(actual) - expected).max()


@pytest.mark.parametrize("rows_at_a_time", [1, 7, 30, 512])
def test_they_are_the_papers_whatever_is_computed_at_a_time(
    model, batch, rows_at_a_time
):
    source, target = map(tf.constant, batch)
    actual = target_log_probs(model, source, target, rows_at_a_time)
    assert actual.dtype == tf.float32
    assert actual.shape == target.shape
    assert max_error(actual, reference(*batch)) < TOLERANCE
    assert np.all(np.asarray(actual)[batch[1] == 0] == 0.0)
    assert np.isfinite(actual).all()
    # The most likely mistake: the target is not shifted.
    assert max_error(actual, reference(*batch, shift=lambda row: row)) > 100 * TOLERANCE


def test_other_outputs_and_starts_have_the_references_scores(batch):
    architecture = architectures()[2]
    options = architecture.options
    assert options.output_bias and options.decoder_start and not options.tie_output
    expected = reference(*batch, weights=architecture.weights())
    actual = target_log_probs(architecture.model(), *map(tf.constant, batch), 7)
    assert max_error(actual, expected) < TOLERANCE


def test_one_graph_for_any_batch_an_empty_one_too(model, batch):
    ids = tf.TensorSpec([None, None], tf.int32)
    traced = tf.function(
        lambda source, target: target_log_probs(model, source, target, 4),
        input_signature=[ids, ids],
        autograph=False,
    )
    source, target = map(tf.constant, batch)
    assert max_error(traced(source, target), reference(*batch)) < TOLERANCE
    empty = traced(tf.zeros([0, 1], tf.int32), tf.zeros([0, 1], tf.int32))
    assert empty.shape == (0, 1)
