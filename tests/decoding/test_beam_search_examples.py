"""Beam search on examples whose probabilities are computed by hand."""

from types import MappingProxyType

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.beam_search import beam_search
from t2t_keras.decoding.settings import BeamSearchSettings
from tests.decoding.toy_models import EOS, TableModel, search

A, B = 2, 3
# Sentences: A with probability 0.4, B A and B B with 0.3 each.
FINISHED_IS_BEST = MappingProxyType(
    {(): {A: 0.4, B: 0.6}, (B,): {A: 0.5, B: 0.5}},
)
# Sentences: A with probability 0.4, B A with 0.36, B with 0.24.
LONGER_IS_BEST_IF_PENALISED = MappingProxyType(
    {(): {A: 0.4, B: 0.6}, (B,): {A: 0.6, EOS: 0.4}},
)


def best(table, **settings):
    """Returns the tokens and probability of the best hypothesis."""
    model = TableModel.from_probabilities(4, 4, table)
    result = search(model, [4], 4, **settings)
    tokens = result.tokens[0, 0, : result.lengths[0, 0]].tolist()
    return tokens, pytest.approx(np.exp(result.log_probs[0, 0]), rel=1e-5)


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("beam_size", [2, 3, 7])
def test_a_finished_best_sentence_is_kept(beam_size, early_stop):
    options = {"beam_size": beam_size, "early_stop": early_stop, "alpha": 0.0}
    assert best(FINISHED_IS_BEST, **options) == ([A, EOS], 0.4)


def test_greedy_search_misses_what_a_beam_finds():
    assert best(FINISHED_IS_BEST, beam_size=1, alpha=0.0) == ([B, A, EOS], 0.3)


def test_the_length_penalty_turns_a_close_race():
    # log 0.4 / 1 > log 0.36 / 1, but log 0.4 / (7/6) < log 0.36 / (8/6).
    table = LONGER_IS_BEST_IF_PENALISED
    assert best(table, beam_size=3, alpha=0.0) == ([A, EOS], 0.4)
    assert best(table, beam_size=3, alpha=1.0) == ([B, A, EOS], 0.36)


def test_a_second_best_eos_does_not_end_a_greedy_search():
    table = {(): {A: 0.6, EOS: 0.4}, (A,): {B: 0.5, EOS: 0.5 - 1e-3, A: 1e-3}}
    assert best(table, beam_size=1) == ([A, B, EOS], 0.3)
    assert best(table, beam_size=2, alpha=0.0) == ([EOS], 0.4)


def call(cache_shape=(3, 2), limits=(4, 4, 4), length=4, vocabulary=6):
    beam_search(
        TableModel.random(0, 3, 6).step,
        {"state": tf.zeros(cache_shape)},
        max_lengths=limits,
        max_decode_length=length,
        vocabulary_size=vocabulary,
        settings=BeamSearchSettings(beam_size=2),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, r"max_decode_length must be at least 1.*max_decode_length=0"),
        ({"vocabulary": 1}, r"more than eos_id=1\. .*vocabulary_size=1"),
        ({"limits": 4}, r"max_lengths must have shape \[B\].*shape=\(\)"),
        ({"limits": [[4]]}, r"max_lengths must have shape \[B\].*shape=\(1, 1\)"),
        ({"cache_shape": (2, 3)}, r"as max_lengths: 3\. Received: \(2, 3\)"),
        ({"cache_shape": ()}, r"as max_lengths: 3\. Received: \(\)"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        call(**arguments)
