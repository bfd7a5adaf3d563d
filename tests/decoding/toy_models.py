"""Toy models for beam search, and simple reference searches.

The reference searches use float64 NumPy and Python lists, and follow the paper.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.beam_search import beam_search
from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings
from tests.reference.beam_np import DEFAULT_RULES, EOS, rank, token_log_probs

PAD = 0
# More tokens than in any history of these tests.
LONGEST = 64


class TableModel:
    """Toy model whose logits are a table, indexed by row and by state of the history.

    Starting from 0, each token changes the state to `state * V + token`, modulo the
    number of states. With V ** L states every history has its own.
    """

    def __init__(self, logits):
        """Creates a model with the table `logits` [B, states, V]."""
        self.logits = np.asarray(logits, np.float32)
        self.batch, self.states, self.width = self.logits.shape
        self.calls = 0

    @classmethod
    def random(cls, seed, batch, width, states=211):
        """Returns a random model in which some histories end early, some late."""
        generator = np.random.default_rng(seed)
        logits = generator.normal(size=[batch, states, width]) * 2.0
        logits[:, :, EOS] += generator.normal(size=[batch, 1]) * 1.5
        return cls(logits)

    @classmethod
    def from_probabilities(cls, width, length, table):
        """Returns a model of one row: `table` maps histories to {token: p}."""
        logits = np.full([1, width**length, width], -np.inf)
        logits[:, :, EOS] = 0.0
        for history, distribution in table.items():
            state = 0
            for token in history:
                state = state * width + token
            logits[0, state] = -np.inf
            for token, probability in distribution.items():
                logits[0, state, token] = np.log(probability)
        return cls(logits)

    def rows(self, index):
        """Returns the model of the batch made of these rows."""
        return TableModel(self.logits[np.asarray(index, int)])

    def cache(self, slots, batch=None):
        """Returns an empty cache of all tokens, split over two tensors to test both."""
        batch = self.batch if batch is None else batch
        return {
            "tens": tf.zeros([batch, slots], tf.int32),
            "nest": [tf.zeros([batch, slots, 2, 3], tf.float32)],
            # The row of each sentence in the table, for when others leave the batch.
            "row": tf.range(batch),
        }

    def step(self, tokens, position, first_slot, visible_slots, cache):
        """Step function: writes tokens to slots and reads whole histories back."""
        del position
        self.calls += 1
        slots = tf.range(tf.shape(visible_slots)[2])
        place = slots - first_slot
        is_here_X = (place >= 0) & (place < tf.shape(tokens)[1])
        new_tokens_BX = tf.gather(tokens, tf.where(is_here_X, place, 0), axis=1)
        tens = tf.where(is_here_X, new_tokens_BX // 10, cache["tens"])
        ones_BX23 = tf.cast(new_tokens_BX % 10, tf.float32)[..., None, None]
        ones = tf.where(is_here_X[:, None, None], ones_BX23, cache["nest"][0])
        tokens_BX = tens * 10 + tf.cast(ones[..., 1, 2], tf.int32)
        state = self._history_state(tokens_BX, visible_slots)
        row_BW = cache["row"][:, None] + tf.zeros_like(state)
        logits = tf.gather_nd(self.logits, tf.stack([row_BW, state], axis=-1))
        return logits, {**cache, "tens": tens, "nest": [ones]}

    def _history_state(self, tokens, visible_slots):
        """Returns the state [B, W] of each history.

        Evaluates the polynomial in V that repeating `state * V + token` yields,
        without a loop.
        """
        powers = tf.constant(
            [pow(self.width, n, self.states) for n in range(LONGEST)], tf.int32
        )
        later_BWX = tf.cumsum(
            tf.cast(visible_slots, tf.int32), axis=2, exclusive=True, reverse=True
        )
        values_BX = tokens % self.states
        terms_BWX = values_BX[:, None] * tf.gather(powers, later_BWX) % self.states
        return (
            tf.reduce_sum(tf.where(visible_slots, terms_BWX, 0), axis=2) % self.states
        )

    @staticmethod
    def grow(cache, kept_slots, new_slots):
        """Grow function. New slots contain garbage, which must not be read."""
        old_slots = {name: cache[name] for name in ("tens", "nest")}
        old_slots = tf.nest.map_structure(
            lambda part: tf.gather(part, kept_slots, batch_dims=1), old_slots
        )
        rows = tf.shape(kept_slots)[0]
        garbage = {
            "tens": tf.fill([rows, new_slots], 3),
            "nest": [tf.ones([rows, new_slots, 2, 3])],
        }
        new_cache = tf.nest.map_structure(
            lambda part, new: tf.concat([part, new], axis=1), old_slots, garbage
        )
        return {**cache, **new_cache}

    def log_probs(self, row, history):
        """Returns log p [V] of the next token after `history`, in float64."""
        state = 0
        for token in history:
            state = (state * self.width + token) % self.states
        logits = self.logits[row, state].astype(np.float64)
        with np.errstate(divide="ignore"):
            peak = logits.max()
            return logits - peak - np.log(np.sum(np.exp(logits - peak)))

    def log_prob(self, row, tokens):
        """Returns log p of a whole sentence, including EOS."""
        steps = range(len(tokens))
        return sum(self.log_probs(row, tokens[:i])[tokens[i]] for i in steps)


def exhaustive_search(
    model, row, limit, alpha, vocabulary, rules=DEFAULT_RULES, prefix=()
):
    """Returns every sentence of at most `limit` tokens, best first."""
    words = range(EOS + 1, vocabulary)
    sentences = [
        (*middle, EOS)
        for length in range(limit)
        for middle in itertools.product(words, repeat=length)
    ]
    scored = []
    for sentence in sentences:
        steps = [
            token_log_probs(model, row, sentence[:i], limit, vocabulary, rules, prefix)
            for i in range(len(sentence))
        ]
        if all(token in step for token, step in zip(sentence, steps, strict=True)):
            pairs = zip(sentence, steps, strict=True)
            scored.append((sentence, sum(step[token] for token, step in pairs)))
    return rank(scored, alpha, rules.length_penalty)


def greedy_search(model, row, limit, vocabulary):
    """Returns the tokens that follow the likeliest token at every position."""
    tokens = []
    while not tokens or tokens[-1] != EOS:
        words = model.log_probs(row, tokens)[EOS:vocabulary]
        last = len(tokens) + 1 == limit
        tokens.append(EOS if last else EOS + int(np.argmax(words)))
    return tuple(tokens)


# Modes of running a search. The cache grows in the modes EAGER and GRAPH.
EAGER, GRAPH, COMPILED = "eager", "graph", "compiled"


def search(model, limits, length, vocabulary=None, how=EAGER, options=None, **settings):
    """Returns the result of a search in NumPy; the graph does not know the size B."""
    settings = BeamSearchSettings(**settings)
    vocabulary = model.width if vocabulary is None else vocabulary
    grows = how != COMPILED
    slots = 0 if grows else length * settings.beam_size

    def run(limits):
        batch = tf.shape(limits)[0]
        return beam_search(
            model.step,
            model.cache(slots, batch),
            max_lengths=limits,
            max_decode_length=length,
            vocabulary_size=vocabulary,
            settings=settings,
            options=options,
            grow_fn=model.grow if grows else None,
        )

    if how != EAGER:
        signature = [tf.TensorSpec([None], tf.int32)]
        run = tf.function(
            run, input_signature=signature, jit_compile=how == COMPILED, autograph=False
        )
    result = run(tf.constant(limits, tf.int32))
    return BeamSearchResult(*[field.numpy() for field in result])


def assert_found(result, row, expected):
    """Asserts the hypotheses of a row: tokens, log probability and score of each."""
    n = None
    for n, (tokens, log_prob, score) in enumerate(expected):
        length = int(result.lengths[row, n])
        assert tuple(result.tokens[row, n, :length].numpy()) == tokens
        values = float(result.log_probs[row, n]), float(result.scores[row, n])
        assert values == pytest.approx((log_prob, score), abs=1e-5)
    assert n is not None


def assert_same(first, second):
    """Asserts that two results agree up to float32 rounding."""
    np.testing.assert_array_equal(first.tokens, second.tokens)
    np.testing.assert_array_equal(first.lengths, second.lengths)
    np.testing.assert_allclose(first.log_probs, second.log_probs, rtol=1e-6)
    np.testing.assert_allclose(first.scores, second.scores, rtol=1e-6)
