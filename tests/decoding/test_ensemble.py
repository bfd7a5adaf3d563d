"""Ensembles against a mixture of two models in float64 NumPy.

The models differ in all sizes but the vocabulary, and in options.
"""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.sampling import Sampling
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.decoding.transformer_search import (
    Ensemble,
    search_translations,
    target_log_probs,
)
from t2t_keras.model.transformer import Transformer
from tests.decoding.test_search_options import ALL_ON
from tests.decoding.toy_models import assert_found, assert_same
from tests.model.copy_weights import transformer_of
from tests.reference import search_np
from tests.reference.beam_np import plain_beam_search
from tests.reference.weights_np import Options, Sizes, random_weights

V, EXTRA = 6, 1
SIZES = (
    Sizes(V, 6, 11, 2, 5, 3, num_encoder_layers=2, num_decoder_layers=1),
    Sizes(V, 10, 7, 3, 2, 4, num_encoder_layers=1, num_decoder_layers=2),
)
OPTIONS = (Options(), Options(normalization="pre", activation="gelu", output_bias=True))
# One row is all padding.
SOURCES = ((4, 2, 1), (3, 1, 0), (0, 0, 0), (5, 5, 1))
LIMITS = tuple(sum(token != 0 for token in source) + EXTRA for source in SOURCES)


@functools.cache
def weights():
    """Random weights of two models, the second with learned positions."""
    return tuple(
        random_weights(np.random.default_rng(seed), sizes, learned, options)
        for seed, sizes, learned, options in zip(
            (1, 2), SIZES, (None, 40), OPTIONS, strict=True
        )
    )


@functools.cache
def models():
    """The same models in Keras."""
    return tuple(
        transformer_of(one, sizes, learned_positions=learned)
        for one, sizes, learned in zip(weights(), SIZES, (None, 40), strict=True)
    )


class Mixture:
    """Model of the reference searches: log of the mean of both probabilities."""

    def __init__(self, sources=SOURCES):
        self._steps = [
            [search_np.model_log_probs(source, one) for one in weights()]
            for source in sources
        ]

    @functools.cache  # noqa: B019 - as long as the tests
    def log_probs(self, row, history):
        both = [np.exp(step(history)) for step in self._steps[row]]
        return np.log(sum(both) / 2)

    def score(self, row, tokens):
        step = functools.partial(self.log_probs, row)
        return search_np.score_tokens(tuple(tokens), step, 0.6)


def search(ensemble, settings, sources=SOURCES, options=None, growing=True):
    return search_translations(
        ensemble,
        tf.convert_to_tensor(sources),
        settings,
        EXTRA,
        options,
        growing=growing,
    )


def test_a_wide_beam_equals_exhaustive_search():
    mixture = Mixture()
    result = search(Ensemble(models()), BeamSearchSettings(4 ** (max(LIMITS) - 1)))
    for row in (0, 1, 3):
        step = functools.partial(mixture.log_probs, row)
        expected = search_np.exhaustive_search(step, V, LIMITS[row], alpha=0.6)
        assert len(expected) > 15
        assert_found(result, row, map(dataclasses.astuple, expected[:60]))


def test_all_options_together_equal_a_plain_search():
    prefixes = ((3, 0), (2, 4), (4, 0), (0, 0))
    settings = BeamSearchSettings(
        3,
        0.6,
        length_penalty=ALL_ON.length_penalty,
        suppressed=ALL_ON.suppressed,
        min_length=ALL_ON.min_length,
        no_repeat_ngram=ALL_ON.no_repeat_ngram,
        renormalize=ALL_ON.renormalize,
    )
    options = RowOptions(prefixes=tf.constant(prefixes))
    for growing in (True, False):
        result = search(Ensemble(models()), settings, options=options, growing=growing)
        for row in (0, 1, 3):
            prefix = tuple(token for token in prefixes[row] if token)
            expected = plain_beam_search(
                Mixture(), row, LIMITS[row], 0.6, V, 3, ALL_ON, prefix
            )
            assert_found(result, row, expected)


def test_samples_have_the_probability_of_the_mixture():
    settings = BeamSearchSettings(5, sampling=Sampling(temperature=1.5, top_k=3))
    seeds = RowOptions(seeds=tf.range(10, 14, dtype=tf.int64))
    result = search(Ensemble(models()), settings, options=seeds)
    mixture = Mixture()
    for row in (0, 1, 3):
        for n in range(5):
            tokens = result.tokens[row, n, : int(result.lengths[row, n])].numpy()
            expected = mixture.score(row, tokens.tolist())
            assert float(result.scores[row, n]) == pytest.approx(
                expected.score, abs=1e-5
            )
            # Three tokens can be drawn, except for an end at the limit.
            for position, token in enumerate(tokens[: LIMITS[row] - 1]):
                likeliest = np.argsort(mixture.log_probs(row, tuple(tokens[:position])))
                allowed = [each for each in likeliest[::-1] if each != 0][:3]
                assert token in allowed


def long_search(ensemble, sources, growing=True):
    """Returns translations of which some have over 8 tokens, so that caches grow."""
    settings = BeamSearchSettings(2, min_length=8, n_best=1)
    result = search(ensemble, settings, sources, growing=growing)
    assert int(tf.reduce_max(result.lengths)) > 8
    return result


def random_sources(seed):
    """Returns three sources of up to 9 tokens, EOS included, the longest second."""
    generator = np.random.default_rng(seed)
    sources = np.zeros([3, 9], "int32")
    for row, length in enumerate((4, 8, 1)):
        sources[row, :length] = generator.integers(2, V, length)
        sources[row, length] = 1
    return sources


@pytest.mark.slow
def test_copies_of_a_model_equal_the_model():
    model, other = models()
    sources = random_sources(seed=3)
    alone, copies = (
        long_search(each, sources) for each in (model, Ensemble([model] * 2))
    )
    assert_same(copies, alone)
    sampling = BeamSearchSettings(3, sampling=Sampling(top_p=0.9))
    seeds = RowOptions(seeds=tf.range(4, dtype=tf.int64))
    alone, copies = (
        search(each, sampling, options=seeds) for each in (other, Ensemble([other] * 2))
    )
    assert_same(copies, alone)


def test_a_translation_does_not_depend_on_its_batch_or_the_caches():
    sources = random_sources(seed=4)
    ensemble = Ensemble(models())
    together = long_search(ensemble, sources)
    alone = long_search(ensemble, sources[[1]], growing=False)
    assert_same(alone, type(alone)(*[field[1:2] for field in together]))


def test_targets_have_the_mean_of_the_probabilities():
    targets = ((4, 2, 3, 1), (5, 1, 0, 0), (2, 4, 1, 0), (1, 0, 0, 0))
    log_probs = target_log_probs(
        Ensemble(models()), tf.constant(SOURCES), tf.constant(targets)
    )
    mixture = Mixture()
    for row, target in enumerate(targets):
        for position, token in enumerate(target):
            expected = 0.0
            if token:
                expected = mixture.log_probs(row, target[:position])[token]
            actual = float(log_probs[row, position])
            assert actual == pytest.approx(expected, abs=1e-5)


def test_limits_are_those_that_all_models_keep():
    model, learned = models()
    assert Ensemble([model, model]).max_positions is None
    assert Ensemble([model, learned]).max_positions == 40


def test_models_of_other_vocabularies_are_refused():
    other = Transformer(V + 1, num_layers=1, d_model=4, d_ff=3, num_heads=2)
    for members in ([models()[0], other], []):
        with pytest.raises(ValueError, match="must have models of one vocabulary"):
            Ensemble(members)
