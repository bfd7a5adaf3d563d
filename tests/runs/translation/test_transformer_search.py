"""Beam search with the Transformer, compared with teacher forcing of its output."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.decoding.transformer_search import search_translations
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import translators
from tests.runs.random_model import (
    CONFIG,
    make_scorer,
    pad_ids,
    random_lines,
    random_model,
)

EXTRA = CONFIG.decoding.extra_length


@pytest.fixture(scope="module")
def model(vocabulary):
    return random_model(vocabulary, num_layers=1)


@pytest.fixture(scope="module")
def read(model):
    return make_scorer(model)


@pytest.fixture(scope="module")
def search(model):
    """A search function of lists of ids, traced once for all shapes."""
    settings = BeamSearchSettings(beam_size=4, alpha=0.6, n_best=3)
    spec = [tf.TensorSpec([None, None], tf.int32)]
    traced = tf.function(
        functools.partial(
            search_translations, model, settings=settings, extra_length=EXTRA
        ),
        input_signature=spec,
    )
    return lambda sources: [part.numpy() for part in traced(pad_ids(sources))]


def test_a_new_model_can_search():
    new = Transformer(13, num_layers=1, d_model=4, d_ff=3, num_heads=2)
    greedy = BeamSearchSettings(beam_size=1)
    found = search_translations(new, tf.constant([[5, 1]]), greedy, extra_length=0)
    assert found.tokens.shape == (1, 1, 2)


@pytest.mark.slow
def test_scores_equal_those_of_teacher_forcing(read, vocabulary, search):
    sources = [vocabulary.encode(line) for line in [*random_lines(7, seed=1), "a"]]
    tokens, lengths, log_probs, scores = search(sources)
    for b, source in enumerate(sources):
        for n in range(3):
            length = lengths[b, n]
            target = tokens[b, n, :length].tolist()
            assert target[-1] == 1
            assert 0 not in target
            assert length <= len(source) + EXTRA
            expected = read(source, target)
            assert log_probs[b, n] == pytest.approx(expected, abs=2e-5)
            # Wu et al. 2016, equation 14.
            penalty = (5 + length) ** 0.6 / 6**0.6
            assert scores[b, n] == pytest.approx(expected / penalty, abs=2e-5)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert len({len(source) for source in sources}) > 3
    # Each sentence has its own limit; this model never predicts EOS before it.
    assert {int(n) for n in lengths[:, 0]} == {len(s) + EXTRA for s in sources}


def test_a_translation_does_not_depend_on_the_batch(vocabulary, search):
    sources = [vocabulary.encode(line) for line in random_lines(6, seed=2)]
    together = search(sources)
    for b in (0, 3, 5):
        alone = search([sources[b]])
        width = alone[0].shape[-1]
        np.testing.assert_array_equal(together[0][b, :, :width], alone[0][0])
        np.testing.assert_array_equal(together[1][b], alone[1][0])
        np.testing.assert_allclose(together[3][b], alone[3][0], atol=1e-5)


def test_an_empty_source_ends_at_once_and_does_not_affect_others(
    read, vocabulary, search
):
    texts = [vocabulary.encode(line) for line in random_lines(4, seed=6)]
    mixed = search([[1], texts[0], [], texts[1], texts[2], [1], texts[3]])
    alone = search(texts)
    for actual, expected in zip(mixed, alone, strict=True):
        np.testing.assert_allclose(actual[[1, 3, 4, 6]], expected, atol=1e-5)
    for row in (0, 2, 5):
        assert mixed[0][row, 0].tolist() == [1] + [0] * (mixed[0].shape[2] - 1)
        assert mixed[1][row, 0] == 1
    assert mixed[2][0, 0] == pytest.approx(read([1], [1]), abs=2e-5)
    # An unknown word is text, and its translation has more than EOS.
    assert search([[2, 1]])[1][0, 0] > 1


def test_blank_lines_take_one_step(model, monkeypatch):
    steps = []
    decode_step = model.decode_step
    monkeypatch.setattr(
        model,
        "decode_step",
        lambda *inputs, **settings: steps.append(1) or decode_step(*inputs, **settings),
    )
    settings = BeamSearchSettings(beam_size=4, n_best=1)
    for growing in (True, False):
        search_translations(
            model, pad_ids([[1, 0], [], [1]]), settings, EXTRA, growing=growing
        )
        assert len(steps) == 1
        steps.clear()


def test_no_translation_is_longer_than_the_limit(model, vocabulary):
    sources = [vocabulary.encode(x) for x in random_lines(4, seed=6, longest=4)]
    settings = BeamSearchSettings(beam_size=3, n_best=1)
    result = search_translations(model, pad_ids(sources), settings, EXTRA, max_length=3)
    # This model never predicts EOS before the limit.
    assert result.lengths[:, 0].numpy().tolist() == [3] * 4
    assert result.tokens.shape[2] == 3


@pytest.mark.slow
def test_the_translator_returns_text_and_scores_of_the_search(model, vocabulary):
    lines = random_lines(5, seed=3, longest=4)
    decoding = dataclasses.replace(CONFIG.decoding, alpha=0.9)  # not the default
    translator = translators.build_translator(model, vocabulary, decoding, 3)
    translations = translator.translate(lines)
    tokens, lengths, log_probs, scores = (
        part.numpy()
        for part in search_translations(
            model,
            pad_ids([vocabulary.encode(line) for line in lines]),
            BeamSearchSettings(beam_size=4, alpha=0.9, n_best=3),
            extra_length=EXTRA,
        )
    )
    for b, line in enumerate(translations):
        assert len(line.hypotheses) == 3
        for n, hypothesis in enumerate(line.hypotheses):
            text = vocabulary.decode(tokens[b, n].tolist())
            assert hypothesis.text == text
            assert hypothesis.num_tokens == lengths[b, n]
            assert hypothesis.log_prob == pytest.approx(log_probs[b, n], abs=1e-5)
            assert hypothesis.score == pytest.approx(scores[b, n], abs=1e-5)
