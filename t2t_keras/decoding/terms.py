"""Terms that must occur in an output, and how far a hypothesis is with each.

A term occurs where its tokens follow one another.

Shapes: B sentences, X hypotheses of each, C terms, P tokens of the longest term, of
which p is an index.
"""

from typing import NamedTuple

import tensorflow as tf

from t2t_keras.decoding.search_state import axis_size
from t2t_keras.decoding.settings import PAD_ID
from t2t_keras.typing import Tensor

# Live hypotheses of a search with terms for each of one without: they share the beam
# with those that have fewer of the terms.
BEAMS_WITH_TERMS = 2


class TermProgress(NamedTuple):
    """How far hypotheses are with the terms of their sentences."""

    is_met: Tensor  # [B, X, C] bool: whether a term has occurred, or is none
    begun: Tensor  # [B, X, C, P] bool: whether a hypothesis ends in p tokens of a term

    def remaining(self, terms: Tensor) -> Tensor:
        """Returns [B, X] int32, the number of tokens that are missing, given [B, C, P].

        Only the term that is nearest to its end is taken as begun.
        """
        missing_BXC = tf.where(self.is_met, 0, _lengths(terms)[:, None])
        begun_BXC = tf.where(self.is_met, 0, self._most_begun())
        # Without terms the maximum is the lowest int32.
        begun_BX = tf.maximum(tf.reduce_max(begun_BXC, axis=2), 0)
        return tf.reduce_sum(missing_BXC, axis=2) - begun_BX

    def next_tokens(self, terms: Tensor) -> Tensor:
        """Returns [B, X, C] int32, the next token of each term; 0 if it is met."""
        columns_P = tf.range(axis_size(terms, 2))
        is_next_BXCP = tf.equal(self._most_begun()[..., None], columns_P)
        next_BXC = tf.reduce_sum(tf.where(is_next_BXCP, terms[:, None], 0), axis=3)
        return tf.where(self.is_met, PAD_ID, next_BXC)

    def take(self, index: Tensor) -> "TermProgress":
        """Returns that of some hypotheses, by their numbers [B, Y] int32."""
        fields = (tf.gather(field, index, batch_dims=1) for field in self)
        return TermProgress(*fields)

    def _most_begun(self) -> Tensor:
        """Returns [B, X, C] int32, the tokens of a term at the end of a hypothesis."""
        columns_P = tf.range(axis_size(self.begun, 3))
        return tf.reduce_max(tf.where(self.begun, columns_P, 0), axis=3)


def fitting_terms(terms: Tensor, room: Tensor) -> Tensor:
    """Returns the terms [B, C, P] that fit, in their order; others become padding.

    Args:
        terms: [B, C, P] int32, padded with 0.
        room: [B] int32, number of tokens that each sentence has for them.
    """
    ends_BC = tf.cumsum(_lengths(terms), axis=1)
    return tf.where((ends_BC <= room[:, None])[..., None], terms, PAD_ID)


def no_progress(terms: Tensor) -> TermProgress:
    """Returns the progress of one empty hypothesis of each sentence."""
    lengths_BC = _lengths(terms)
    columns_P = tf.range(axis_size(terms, 2))
    begun_BCP = tf.equal(columns_P, 0) & (lengths_BC > 0)[..., None]
    return TermProgress(tf.equal(lengths_BC, 0)[:, None], begun_BCP[:, None])


def progress_after(
    before: TermProgress, parents: Tensor, tokens: Tensor, terms: Tensor
) -> TermProgress:
    """Returns the progress of continuations of hypotheses.

    Args:
        before: Progress of the hypotheses.
        parents: [B, X] int32, the hypothesis that each continues.
        tokens: [B, X] int32, the token that each adds.
        terms: [B, C, P] int32.
    """
    own = before.take(parents)
    is_next_BXCP = tf.equal(tokens[..., None, None], terms[:, None])
    continued_BXCP = own.begun & is_next_BXCP
    columns_P = tf.range(axis_size(terms, 2))
    lengths_BC1 = _lengths(terms)[..., None]
    is_last_BCP = tf.equal(columns_P, lengths_BC1 - 1)
    is_complete_BXC = tf.reduce_any(continued_BXCP & is_last_BCP[:, None], axis=3)
    # With one token more, if that is not all of the term. No token is always begun.
    padding = [[0, 0], [0, 0], [0, 0], [1, 0]]
    longer_BXCP = tf.pad(continued_BXCP, padding, constant_values=True)[..., :-1]
    begun_BXCP = longer_BXCP & (columns_P < lengths_BC1)[:, None]
    return TermProgress(own.is_met | is_complete_BXC, begun_BXCP)


def _lengths(terms: Tensor) -> Tensor:
    """Returns [B, C] int32, the number of tokens of each term."""
    return tf.reduce_sum(tf.cast(terms != PAD_ID, tf.int32), axis=2)
