"""Terms that must occur in an output, and how far a hypothesis is with each.

A term occurs where its tokens follow one another.

Shapes: B sentences, X hypotheses of each, L longest output, C terms, P tokens of the
longest term.
"""

from typing import NamedTuple

import tensorflow as tf

from t2t_keras.decoding.search_state import axis_size
from t2t_keras.decoding.settings import PAD_ID
from t2t_keras.typing import Tensor

# Live hypotheses of a search with terms for each of one without: they share the beam
# with those that have fewer of the terms.
BEAMS_WITH_TERMS = 2
# Before the first token of a hypothesis. No token has this id.
_NOTHING = -1


class TermProgress(NamedTuple):
    """How far hypotheses are with the terms of their sentences."""

    is_met: Tensor  # [B, X, C] bool: whether a term has occurred, or is none
    partial: Tensor  # [B, X, C] int32: tokens of a term at the end of the hypothesis

    def remaining(self, terms: Tensor) -> Tensor:
        """Returns [B, X] int32, the number of tokens that are missing, given [B, C, P].

        Only the term that is nearest to its end is taken as begun.
        """
        missing_BXC = tf.where(self.is_met, 0, _lengths(terms)[:, None])
        begun_BXC = tf.where(self.is_met, 0, self.partial)
        # Without terms the maximum is the lowest int32.
        begun_BX = tf.maximum(tf.reduce_max(begun_BXC, axis=2), 0)
        return tf.reduce_sum(missing_BXC, axis=2) - begun_BX

    def next_tokens(self, terms: Tensor) -> Tensor:
        """Returns [B, X, C] int32, the next token of each term; 0 if it is met."""
        columns_P = tf.range(axis_size(terms, 2))
        is_next_BXCP = tf.equal(self.partial[..., None], columns_P)
        next_BXC = tf.reduce_sum(tf.where(is_next_BXCP, terms[:, None], 0), axis=3)
        return tf.where(self.is_met, PAD_ID, next_BXC)


def fitting_terms(terms: Tensor, room: Tensor) -> Tensor:
    """Returns the terms [B, C, P] that fit, in their order; others become padding.

    Args:
        terms: [B, C, P] int32, padded with 0.
        room: [B] int32, number of tokens that each sentence has for them.
    """
    ends_BC = tf.cumsum(_lengths(terms), axis=1)
    return tf.where((ends_BC <= room[:, None])[..., None], terms, PAD_ID)


def term_progress(tokens: Tensor, position: Tensor, terms: Tensor) -> TermProgress:
    """Returns the progress of hypotheses [B, X, L] of `position` tokens, then 0."""
    batch, count, length = (axis_size(tokens, axis) for axis in range(3))
    width = axis_size(terms, 2)
    padded = tf.pad(tokens, [[0, 0], [0, 0], [width, 0]], constant_values=_NOTHING)
    ends_LP = tf.range(1, length + 1)[:, None] + tf.range(width)
    windows_BXLP = tf.gather(padded, ends_LP, axis=2)
    every_BRP = tf.reshape(windows_BXLP, [batch, count * length, width])
    complete_BRC, _ = _match_ends(every_BRP, terms)
    shape = [batch, count, length, axis_size(terms, 1)]
    complete_BXLC = tf.reshape(complete_BRC, shape)
    _, partial_BXC = _match_ends(
        tf.gather(padded, position + tf.range(width), axis=2), terms
    )
    is_none_B1C = (_lengths(terms) == 0)[:, None]
    is_met_BXC = tf.reduce_any(complete_BXLC, axis=2) | is_none_B1C
    return TermProgress(is_met_BXC, partial_BXC)


def progress_after(
    before: TermProgress,
    parents: Tensor,
    tokens: Tensor,
    position: Tensor,
    terms: Tensor,
) -> TermProgress:
    """Returns the progress of continuations of hypotheses.

    Args:
        before: Progress of the hypotheses.
        parents: [B, X] int32, the hypothesis that each continues.
        tokens: [B, X, L] int32, the continuations.
        position: int32 scalar, index of their last token.
        terms: [B, C, P] int32.
    """
    width = axis_size(terms, 2)
    padded = tf.pad(tokens, [[0, 0], [0, 0], [width, 0]], constant_values=_NOTHING)
    window_BXP = tf.gather(padded, position + 1 + tf.range(width), axis=2)
    complete_BXC, partial_BXC = _match_ends(window_BXP, terms)
    is_met_BXC = tf.gather(before.is_met, parents, batch_dims=1) | complete_BXC
    return TermProgress(is_met_BXC, partial_BXC)


def _match_ends(windows: Tensor, terms: Tensor) -> tuple[Tensor, Tensor]:
    """Returns which terms windows end in, and with how many tokens of others.

    Args:
        windows: [B, X, P] int32, the last tokens of each hypothesis.
        terms: [B, C, P] int32.

    Returns:
        [B, X, C] bool and [B, X, C] int32, fewer than the tokens of a term.
    """
    width = axis_size(terms, 2)
    counts_Q = tf.range(width + 1)
    columns_P = tf.range(width)
    # The last q tokens, compared with the first q of a term.
    index_QP = tf.minimum(width - counts_Q[:, None] + columns_P, width - 1)
    last_BXQP = tf.gather(windows, index_QP, axis=2)
    # Unlike "==", it has a rank if sizes are unknown.
    is_equal_BXCQP = tf.equal(last_BXQP[:, :, None], terms[:, None, :, None])
    is_unused_QP = columns_P >= counts_Q[:, None]
    matches_BXCQ = tf.reduce_all(is_equal_BXCQP | is_unused_QP, axis=4)
    lengths_BC1 = _lengths(terms)[:, None, :, None]
    is_whole_BXCQ = tf.equal(counts_Q, lengths_BC1) & (counts_Q > 0)
    partial_BXCQ = tf.where(matches_BXCQ & (counts_Q < lengths_BC1), counts_Q, 0)
    return (
        tf.reduce_any(matches_BXCQ & is_whole_BXCQ, axis=3),
        tf.reduce_max(partial_BXCQ, axis=3),
    )


def _lengths(terms: Tensor) -> Tensor:
    """Returns [B, C] int32, the number of tokens of each term."""
    return tf.reduce_sum(tf.cast(terms != PAD_ID, tf.int32), axis=2)
