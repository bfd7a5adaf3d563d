"""Beam search against exhaustive search, plain searches and worked examples."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.beam_search import beam_search
from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings
from tests.decoding.toy_models import (
    COMPILED,
    EAGER,
    EOS,
    GRAPH,
    PAD,
    TableModel,
    assert_same,
    exhaustive_search,
    greedy_search,
    search,
)
from tests.reference.beam_np import (
    plain_beam_search,
    score,
)


def assert_hypotheses(result, row, expected):
    """Asserts that a row has the expected hypotheses, followed by empty slots."""
    width = result.lengths.shape[1]
    expected = expected[:width]
    assert len(expected) > 0
    for slot, (tokens, log_prob, value) in enumerate(expected):
        actual = result.tokens[row, slot]
        assert tuple(actual[: len(tokens)]) == tokens, (row, slot)
        assert not actual[len(tokens) :].any()
        assert result.lengths[row, slot] == len(tokens)
        np.testing.assert_allclose(result.log_probs[row, slot], log_prob, rtol=1e-4)
        np.testing.assert_allclose(result.scores[row, slot], value, rtol=1e-4)
    empty = slice(len(expected), width)
    assert not result.tokens[row, empty].any()
    assert not result.lengths[row, empty].any()
    assert np.all(result.log_probs[row, empty] == -np.inf)
    assert np.all(result.scores[row, empty] == -np.inf)


# A beam as wide as the number of sentences (for example 1 + 3 + 9 + 27 + 81) loses no
# sentence; a narrower one keeps the n best.
@pytest.mark.parametrize(
    ("vocabulary", "length", "beam_size", "alpha"),
    [(3, 5, 8, 0.0), (5, 4, 40, 2.5), (5, 5, 81, 0.6), (2, 3, 4, 0.6)],
)
def test_a_wide_beam_equals_exhaustive_search(vocabulary, length, beam_size, alpha):
    model = TableModel.random(vocabulary + length, 5, vocabulary)
    limits = [length, 1, 3, length, 2]
    result = search(model, limits, length, alpha=alpha, beam_size=beam_size)
    for row, limit in enumerate(limits):
        every = exhaustive_search(model, row, limit, alpha, vocabulary)
        assert_hypotheses(result, row, every)


@pytest.mark.parametrize(
    ("beam_size", "alpha", "how"),
    [
        (2, 0.0, EAGER),
        (5, 2.0, EAGER),
        (3, 0.6, GRAPH),
        (3, 0.6, COMPILED),
    ],
)
def test_a_narrow_beam_equals_a_plain_one(beam_size, alpha, how):
    model = TableModel.random(beam_size, 6, 11)
    limits, length, vocabulary = [7, 4, 1, 7, 6, 2], 7, 9
    result = search(
        model, limits, length, vocabulary, how, beam_size=beam_size, alpha=alpha
    )
    for row, limit in enumerate(limits):
        expected = plain_beam_search(model, row, limit, alpha, vocabulary, beam_size)
        assert_hypotheses(result, row, expected)


def test_a_beam_of_one_is_greedy_search():
    alpha = 3.0
    model = TableModel.random(1, 40, 6)
    limits = np.random.default_rng(1).integers(1, 10, size=40)
    result = search(model, limits, 9, how=GRAPH, beam_size=1, alpha=alpha)
    lengths = set()
    for row, limit in enumerate(limits):
        tokens = greedy_search(model, row, limit, 6)
        log_prob = model.log_prob(row, tokens)
        value = score(log_prob, len(tokens), alpha)
        assert_hypotheses(result, row, [(tokens, log_prob, value)])
        lengths.add(len(tokens) - limit)
    assert len(lengths) > 3  # some end by EOS, some at the limit


def test_scores_are_true_and_hypotheses_whole_distinct_and_sorted():
    model = TableModel.random(4, 7, 50)
    result = search(model, [12] * 7, 12, how=GRAPH, beam_size=6, alpha=0.6)
    assert np.all(np.diff(result.scores, axis=1) <= 0)
    for row in range(7):
        sentences = set()
        for slot in range(6):
            length = result.lengths[row, slot]
            tokens = tuple(result.tokens[row, slot, :length].tolist())
            assert tokens.index(EOS) == length - 1
            assert PAD not in tokens
            log_prob = model.log_prob(row, tokens)
            np.testing.assert_allclose(result.log_probs[row, slot], log_prob, rtol=1e-4)
            np.testing.assert_allclose(
                result.scores[row, slot], score(log_prob, length, 0.6), rtol=1e-4
            )
            sentences.add(tokens)
        assert len(sentences) == 6


def test_a_sentence_does_not_depend_on_its_batch_mates():
    generator = np.random.default_rng(1)
    model = TableModel.random(9, 8, 13)
    limits = generator.integers(1, 9, size=8)
    options = {"beam_size": 3, "alpha": 0.6}
    together = search(model, limits, 8, **options)
    mates = generator.integers(8, size=generator.integers(1, 12))
    chosen = search(model.rows(mates), limits[mates], 8, **options)
    assert_same(chosen, BeamSearchResult(*[field[mates] for field in together]))
    alone = search(model.rows([1]), limits[[1]], 8, **options)
    assert_same(alone, BeamSearchResult(*[field[[1]] for field in together]))


def test_a_longer_static_bound_changes_nothing_but_the_shape():
    model = TableModel.random(3, 4, 9)
    near, far = [search(model, [5, 1, 4, 2], size, beam_size=3) for size in (5, 11)]
    assert far.tokens.shape == (4, 3, 11)
    assert not far.tokens[..., 5:].any()
    assert_same(far._replace(tokens=far.tokens[..., :5]), near)


@pytest.mark.parametrize("how", [EAGER, GRAPH, COMPILED])
def test_an_empty_batch_gives_an_empty_result(how):
    model = TableModel.random(0, 3, 6).rows([])
    result = search(model, [], 5, how=how, beam_size=4, n_best=2)
    assert [field.shape for field in result] == [(0, 2, 5), (0, 2), (0, 2), (0, 2)]
    assert [field.dtype for field in result] == ["int32", "int32", "float32", "float32"]


def test_a_search_without_a_cache_needs_none():
    def step(tokens, position, first_slot, visible_slots, cache):
        del position, first_slot, visible_slots
        return tf.one_hot(3 - tf.minimum(tokens, 2), 4) * 5.0, cache

    result = beam_search(
        step,
        {},
        max_lengths=[5],
        max_decode_length=5,
        vocabulary_size=4,
        settings=BeamSearchSettings(beam_size=2),
    )
    assert result.tokens[0, 0].numpy().tolist() == [3, 1, 0, 0, 0]


def test_limits_below_one_and_above_the_bound_are_taken_as_those():
    model = TableModel.random(5, 4, 6)
    clipped = search(model, [0, -3, 99, 4], 4, beam_size=3)
    assert_same(clipped, search(model, [1, 1, 4, 4], 4, beam_size=3))
    assert clipped.tokens[0, 0].tolist() == [EOS, 0, 0, 0]


def test_padding_is_never_generated_and_keeps_its_probability():
    model = TableModel.random(8, 3, 7)
    model.logits[..., PAD] = 6.0
    model.logits[..., 5:] = 7.0
    result = search(model, [6, 6, 3], 6, 5, beam_size=4)
    for row, limit in enumerate([6, 6, 3]):
        expected = plain_beam_search(model, row, limit, 0.6, 5, 4)
        assert expected[0][1] < -3.0  # most of the probability is on padding
        assert_hypotheses(result, row, expected)


def test_a_sentence_with_nan_logits_does_not_disturb_its_neighbors():
    model = TableModel.random(6, 3, 9)
    sound = search(model, [5, 5, 5], 5, beam_size=3)
    model.logits[1] = np.nan
    for how in (EAGER, COMPILED):
        result = search(model, [5, 5, 5], 5, how=how, beam_size=3)
        kept = [0, 2]
        assert_same(*[BeamSearchResult(*[f[kept] for f in r]) for r in (result, sound)])
        assert not result.lengths[1].any()
        assert np.all(result.scores[1] == -np.inf)


def test_one_graph_serves_every_batch_size_and_length():
    model = TableModel.random(11, 4, 7)
    settings = BeamSearchSettings(beam_size=3)
    limits = [2, 6, 1, 5]

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)],
        autograph=False,
    )
    def run(max_lengths, length):
        return beam_search(
            model.step,
            model.cache(3 * length, tf.shape(max_lengths)[0]),
            max_lengths=max_lengths,
            max_decode_length=length,
            vocabulary_size=7,
            settings=settings,
        )

    for length in (6, 9):
        result = run(limits, length)
        assert result.tokens.shape == (4, 3, length)
        known = search(model, limits, length, beam_size=3)
        assert_same(BeamSearchResult(*[part.numpy() for part in result]), known)


def test_a_growing_cache_changes_nothing():
    """The cache grows several times, and finished sentences leave one by one."""
    model = TableModel.random(3, 9, 8)
    limits = [40, 1, 9, 8, 17, 16, 33, 2, 25]
    options = {"beam_size": 3, "alpha": 1.5, "early_stop": False}
    fixed = search(model, limits, 40, how=COMPILED, **options)
    growing = search(model, limits, 40, how=GRAPH, **options)
    assert_same(growing, fixed)
    assert len(set(growing.lengths[:, 0].tolist())) > 5
