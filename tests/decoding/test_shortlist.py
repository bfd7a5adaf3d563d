"""Searches with a shortlist against a model in float64 NumPy whose other words are cut.

The shortlist of a sentence is chosen here again, from its definition, in Python.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.sampling import Sampling
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.decoding.shortlist import Shortlist, to_options
from t2t_keras.decoding.transformer_search import Ensemble, search_translations
from t2t_keras.errors import UserError
from tests.decoding.toy_models import assert_found, assert_same
from tests.model.copy_weights import transformer_of
from tests.reference import search_np
from tests.reference.beam_np import Rules, plain_beam_search
from tests.reference.weights_np import Options, Sizes, random_weights

V, N, EXTRA = 17, 9, 2
SIZES = Sizes(V, 6, 11, 2, 5, 3, num_encoder_layers=2, num_decoder_layers=1)
OPTIONS = Options(output_bias=True, tie_output=False)
# One row is all padding, one has the end only.
SOURCES = ((4, 12, 1, 0), (13, 5, 16, 1), (0, 0, 0, 0), (1, 0, 0, 0), (7, 7, 7, 1))
ROWS = (0, 1, 4)
LIMITS = tuple(sum(token != 0 for token in source) + EXTRA for source in SOURCES)


@functools.cache
def lexicon():
    """Candidates and probabilities: rows of several lengths, one empty, some ties."""
    generator = np.random.default_rng(6)
    candidates, probabilities = np.zeros([V, 4], int), np.zeros([V, 4])
    for source in range(3, V):
        count = 0 if source == 5 else generator.integers(1, 5)
        candidates[source, :count] = generator.choice(
            np.arange(3, V), count, replace=False
        )
        probabilities[source, :count] = generator.integers(1, 5, count) / 8
    return candidates, probabilities


def shortlist(size=N):
    return Shortlist(*lexicon(), size)


def choose(source, size=N, prefix=(), words=None):
    """Returns the shortlist of a sentence by its definition."""
    candidates, probabilities = words or lexicon()
    best = dict.fromkeys(range(len(candidates)), 0.0)
    for token in source:
        for word, p in zip(candidates[token], probabilities[token], strict=True):
            best[int(word)] = max(best[int(word)], p)
    frequent = range(size // 4)
    order = [0, 1, 2, *prefix, *frequent]
    order += sorted(best, key=lambda word: (-best[word], word))
    return sorted(list(dict.fromkeys(order))[:size])


@functools.cache
def weights(seed=1):
    return random_weights(np.random.default_rng(seed), SIZES, None, OPTIONS)


@functools.cache
def model(seed=1):
    return transformer_of(weights(seed), SIZES)


class Restricted:
    """Model of the reference search: the mean of models, over a shortlist only."""

    def __init__(self, words, seeds=(1,)):
        self.words = words
        self._steps = [
            [search_np.model_log_probs(source, weights(seed)) for seed in seeds]
            for source in SOURCES
        ]

    @functools.cache  # noqa: B019 - as long as the tests
    def log_probs(self, row, history):
        words = self.words[row]
        total = np.zeros(V)
        for step in self._steps[row]:
            probabilities = np.exp(step(history))[words]
            total[words] += probabilities / probabilities.sum()
        with np.errstate(divide="ignore"):
            return np.log(total / len(self._steps[row]))


def search(searched, settings, words, sources=SOURCES, options=None, growing=True):
    return search_translations(
        searched,
        tf.convert_to_tensor(sources),
        settings,
        EXTRA,
        options,
        shortlist=words,
        growing=growing,
    )


def check(result, reference, settings, rules=None, prefixes=((),) * 5):
    for row in ROWS:
        expected = plain_beam_search(
            reference,
            row,
            LIMITS[row],
            settings.alpha,
            V,
            settings.beam_size,
            rules or Rules(),
            prefixes[row],
        )
        assert_found(result, row, expected)


def test_a_shortlist_has_what_its_definition_says():
    for size in (4, 6, N, 13, V):
        chosen = shortlist(size).select(tf.constant(SOURCES)).numpy()
        expected = [choose(source, size) for source in SOURCES]
        assert chosen.tolist() == expected
    assert shortlist(V + 5).size == V
    prefixes = [(15, 14), (0, 0), (16, 0), (0, 0), (3, 15)]
    # Terms have the room that is left: after the special ids and a prefix of two, of
    # lower ids first.
    terms = [(13, 12), (11, 0), (9, 0), (10, 0), (0, 0)]
    options = RowOptions(prefixes=tf.constant(prefixes))
    both = options._replace(terms=tf.constant([[row, (4, 0), (0, 0)] for row in terms]))
    of_both, of_prefixes = (
        shortlist(6).select(tf.constant(SOURCES), each).numpy()
        for each in (both, options)
    )
    for row, source in enumerate(SOURCES):
        prefix = [token for token in prefixes[row] if token]
        required = [*prefix, *sorted({4, *terms[row]} - {0})]
        assert of_prefixes[row].tolist() == choose(source, 6, prefix=prefix)
        assert of_both[row].tolist() == choose(source, 6, prefix=required)


def test_frequent_words_come_before_likely_ones():
    generator = np.random.default_rng(8)
    words = generator.integers(20, 60, [60, 12]), generator.random([60, 12])
    for part in words:
        part[0] = 0  # padding
    sources = generator.integers(3, 60, [4, 5])
    chosen = Shortlist(*words, 24).select(tf.constant(sources, tf.int32)).numpy()
    for row, source in enumerate(sources):
        assert chosen[row].tolist() == choose(source, 24, words=words)
        # There are more likely words than places.
        assert chosen[row, :7].tolist() != [0, 1, 2, 3, 4, 5, 6]
        assert len(set(words[0][source].ravel())) > 24


def test_a_search_is_that_of_a_model_without_other_words():
    words = [choose(source) for source in SOURCES]
    settings = BeamSearchSettings(3, 0.6)
    result = search(model(), settings, shortlist(), growing=False)
    check(result, Restricted(words), settings)
    # It is another search than that of the whole vocabulary.
    whole = search(model(), settings, None, growing=False)
    assert (whole.tokens.numpy() != result.tokens.numpy()).any()


def test_all_options_together_in_an_ensemble():
    prefixes = ((15, 4), (14, 0), (3, 0), (0, 0), (5, 6))
    rules = Rules("power", (2,), 3, 2)
    settings = BeamSearchSettings(
        3,
        0.8,
        length_penalty=rules.length_penalty,
        suppressed=rules.suppressed,
        min_length=rules.min_length,
        no_repeat_ngram=rules.no_repeat_ngram,
    )
    plain = [tuple(token for token in prefix if token) for prefix in prefixes]
    words = [
        choose(source, prefix=prefix)
        for source, prefix in zip(SOURCES, plain, strict=True)
    ]
    ensemble = Ensemble([model(), model(2)])
    options = RowOptions(prefixes=tf.constant(prefixes))
    result = search(ensemble, settings, shortlist(), options=options)
    reference = Restricted(words, seeds=(1, 2))
    check(result, reference, settings, rules, plain)


@pytest.mark.slow
def test_a_shortlist_of_all_words_changes_nothing():
    for settings, options in (
        (BeamSearchSettings(2, min_length=3), RowOptions(prefixes=[[9], [0]] * 2)),
        (
            BeamSearchSettings(3, sampling=Sampling(temperature=1.5)),
            RowOptions(seeds=tf.range(4, dtype=tf.int64)),
        ),
    ):
        sources = SOURCES[:4]
        found = search(model(), settings, shortlist(V), sources, options)
        assert_same(found, search(model(), settings, None, sources, options))


@pytest.mark.slow
def test_a_translation_does_not_depend_on_its_batch_or_on_xla():
    settings, words = BeamSearchSettings(3, 0.6), shortlist()
    together = search(model(), settings, words)
    for row in range(len(SOURCES)):
        alone = search(model(), settings, words, [SOURCES[row]])
        mine = type(alone)(*[field[row : row + 1] for field in together])
        assert_same(alone, mine)
    compiled = tf.function(
        lambda sources: search(model(), settings, words, sources, growing=False),
        jit_compile=True,
        autograph=False,
    )
    assert_same(compiled(tf.constant(SOURCES)), together)


def test_bad_arguments_are_refused():
    candidates, probabilities = lexicon()
    with pytest.raises(ValueError, match=r"shape \[V, K\].*\(17, 4\) and \(17, 3\)"):
        Shortlist(candidates, probabilities[:, :3], N)
    with pytest.raises(ValueError, match=r"more than 3 tokens\. Received: 3 and 17"):
        shortlist(3)
    with pytest.raises(ValueError, match=r"ids from 0 to 16\. Received: 0 to 17"):
        Shortlist(np.where(candidates == 16, 17, candidates), probabilities, N)
    with pytest.raises(ValueError, match="Received one for 9"):
        search(
            model(),
            BeamSearchSettings(2),
            Shortlist(candidates[:9] % 9, probabilities[:9], 5),
        )
    with pytest.raises(ValueError, match="must be special ids, below 3"):
        search(model(), BeamSearchSettings(2, suppressed=(2, 7)), shortlist())
    shortlist().check_room(N - 3)
    shortlist(V).check_room(100)
    with pytest.raises(UserError, match="--shortlist_size must be at least 10"):
        shortlist().check_room(N - 2)


def test_terms_are_in_the_shortlist():
    settings = BeamSearchSettings(4, 0.6, n_best=1)
    terms = np.zeros([5, 2, 2], np.int32)
    terms[:, 0], terms[1, 1] = (16, 15), (14, 0)
    options = RowOptions(terms=terms)
    restricted = search(model(), settings, shortlist(), options=options)
    for row in ROWS:
        tokens = restricted.tokens[row, 0].numpy().tolist()
        assert tokens[tokens.index(16) + 1] == 15
    assert 14 in restricted.tokens[1, 0].numpy()
    # Of a term of which it has only a part, nothing is left.
    one = RowOptions(terms=tf.constant([[[16, 15], [15, 0]]]))
    found = to_options(tf.constant([[0, 1, 2, 15]]), one)
    assert found is not None and found.terms.numpy().tolist() == [[[0, 0], [3, 0]]]
    # One as large as the vocabulary changes nothing.
    whole, every = (
        search(model(), settings, each, options=options)
        for each in (None, shortlist(V))
    )
    np.testing.assert_array_equal(whole.tokens, every.tokens)
