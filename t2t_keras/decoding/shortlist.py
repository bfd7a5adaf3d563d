"""Lexical shortlist: likely output tokens of a source, all that a search considers.

The output projection of a large vocabulary takes much of the time of a decoding step.
With a shortlist it has N rows instead of V, and so has everything that follows.

During the search tokens are indices into the shortlist of their sentence. It is
ascending, so special ids are their own indices, and the order among equals is that of
the ids.

Shapes: B sentences, S source length, P prefix length, V vocabulary, K candidates of a
source token, N tokens in the shortlist of a sentence.
"""

import hashlib

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import PAD_ID, RowOptions, is_given
from t2t_keras.errors import UserError
from t2t_keras.typing import Tensor

# Padding, EOS and unknown are in every shortlist, so that they keep their ids there.
NUM_SPECIAL_IDS = 3


class Shortlist:
    """Lexicon from which the shortlist of a sentence is selected (ADR 0029).

    The shortlist of a sentence depends on its own source only. It has N tokens: the
    special ones; those of a prefix; the N / 4 lowest ids, which are the most frequent
    subwords; then the likeliest translations of any source token, and for the rest
    further ids from the lowest on.

    Args:
        candidates: [V, K] int, translations of each source token, padded with 0.
        probabilities: [V, K] float, their probabilities given that token.
        size: N; clipped to V.

    Raises:
        ValueError: If a shape, an id or the size is out of range.
    """

    def __init__(self, candidates: np.ndarray, probabilities: np.ndarray, size: int):
        if candidates.ndim != 2 or candidates.shape != probabilities.shape:
            raise ValueError(
                "candidates and probabilities must both have shape [V, K]. Received: "
                f"{candidates.shape} and {probabilities.shape}"
            )
        self.vocabulary_size = len(candidates)
        if size <= NUM_SPECIAL_IDS or self.vocabulary_size <= NUM_SPECIAL_IDS:
            raise ValueError(
                f"size and the vocabulary must have more than {NUM_SPECIAL_IDS} "
                f"tokens. Received: {size} and {self.vocabulary_size}"
            )
        if candidates.min(initial=0) < 0 or (
            candidates.max(initial=0) >= self.vocabulary_size
        ):
            raise ValueError(
                f"candidates must be ids from 0 to {self.vocabulary_size - 1}. "
                f"Received: {candidates.min()} to {candidates.max()}"
            )
        self.size = min(size, self.vocabulary_size)
        # Variables, not constants: an export has them once, among its weights.
        self.weights = [
            tf.Variable(candidates.astype(np.int32), trainable=False),
            tf.Variable(probabilities.astype(np.float32), trainable=False),
        ]

    def describe(self) -> dict[str, int | str]:
        """Returns the size, and a digest of the lexicon, as JSON values."""
        digest = hashlib.sha256()
        for weight in self.weights:
            digest.update(weight.numpy().tobytes())
        return {"size": self.size, "sha256": digest.hexdigest()}

    def check_room(self, longest: int) -> None:
        """Raises `UserError` if a prefix of so many tokens may not fit a shortlist."""
        needed = min(longest + NUM_SPECIAL_IDS, self.vocabulary_size)
        if self.size < needed:
            raise UserError(
                f"With --prefix, --shortlist_size must be at least {needed}, so that "
                f"all tokens of a prefix are in the shortlist. Received: {self.size}"
            )

    def select(self, source: Tensor, options: RowOptions | None = None) -> Tensor:
        """Returns the shortlist of each sentence, [B, N] int32, ascending.

        Args:
            source: [B, S] int32, padded with 0.
            options: Prefixes, whose tokens must be in it, at most
                N - `NUM_SPECIAL_IDS`; and terms, whose tokens are in it while there is
                room for them.
        """
        candidates_VK, probabilities_VK = self.weights
        batch = tf.shape(source)[0]
        # Ranks above all probabilities: often, and always, in the shortlist.
        frequent, of_terms, required = 2.0, 3.0, 4.0
        ids_V = tf.range(self.vocabulary_size)
        ranks_V = tf.where(ids_V < self.size // 4, frequent, 0.0)
        ranks_V = tf.where(ids_V < NUM_SPECIAL_IDS, required, ranks_V)
        ranks_BV = tf.tile(ranks_V[None], [batch, 1])
        ranks_BV = _raise_to(
            ranks_BV,
            tf.reshape(tf.gather(candidates_VK, source), [batch, -1]),
            tf.reshape(tf.gather(probabilities_VK, source), [batch, -1]),
        )
        options = options or RowOptions()
        for rank, tokens in ((required, options.prefixes), (of_terms, options.terms)):
            if is_given(tokens):
                flat_BX = _flatten(tokens)
                ones_BX = tf.ones_like(flat_BX, tf.float32)
                ranks_BV = _raise_to(ranks_BV, flat_BX, rank * ones_BX)
        # Among equals top_k selects the lowest ids.
        _, words_BN = tf.math.top_k(ranks_BV, self.size)
        return tf.sort(words_BN, axis=1)


def _raise_to(ranks: Tensor, ids: Tensor, values: Tensor) -> Tensor:
    """Returns `ranks` [B, V], at `ids` [B, X] no less than `values` [B, X]."""
    rows_BX = tf.range(tf.shape(ids)[0])[:, None] + tf.zeros_like(ids)
    return tf.tensor_scatter_nd_max(ranks, tf.stack([rows_BX, ids], axis=-1), values)


def to_tokens(words: Tensor, indices: Tensor) -> Tensor:
    """Returns the tokens at indices [B, ...] of each sentence's shortlist [B, N]."""
    return tf.gather(words, indices, batch_dims=1)


def to_result(words: Tensor, result: BeamSearchResult) -> BeamSearchResult:
    """Returns the result of a search with tokens instead of indices."""
    return result._replace(tokens=to_tokens(words, result.tokens))


def to_options(words: Tensor, options: RowOptions | None) -> RowOptions | None:
    """Returns options whose prefixes and terms are indices into the shortlists [B, N].

    A token of a prefix that is not in its shortlist becomes padding, and so does a term
    with such a token.
    """
    if options is None:
        return None
    if is_given(options.prefixes):
        options = options._replace(prefixes=_to_indices(words, options.prefixes))
    if is_given(options.terms):
        indices_BX = _to_indices(words, _flatten(options.terms))
        indices_BCP = tf.reshape(indices_BX, tf.shape(options.terms))
        # Of a term of which the shortlist has only a part, nothing is left.
        is_term_BCP = tf.cast(options.terms, tf.int32) != PAD_ID
        has_all_BC = tf.reduce_all(tf.equal(indices_BCP != PAD_ID, is_term_BCP), axis=2)
        terms_BCP = tf.where(has_all_BC[..., None], indices_BCP, PAD_ID)
        options = options._replace(terms=terms_BCP)
    return options


def _flatten(tokens: Tensor) -> Tensor:
    """Returns [B, X] int32 of tokens [B, ...]."""
    shape = tf.shape(tokens)
    flat = tf.reshape(tokens, [shape[0], tf.reduce_prod(shape[1:])])
    return tf.cast(flat, tf.int32)


def _to_indices(words: Tensor, tokens: Tensor) -> Tensor:
    """Returns the index [B, X] of each token in its shortlist; 0 if it is not there."""
    tokens_BX = tf.cast(tokens, tf.int32)
    indices_BX = tf.searchsorted(words, tokens_BX)
    indices_BX = tf.minimum(indices_BX, tf.shape(words)[1] - 1)
    is_there_BX = to_tokens(words, indices_BX) == tokens_BX
    return tf.where(is_there_BX, indices_BX, PAD_ID)
