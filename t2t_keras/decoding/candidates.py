"""From logits to the likeliest continuations of a sentence.

Shapes: B sentences, W live hypotheses of each, K continuations kept of each
hypothesis, C candidates kept of each sentence, V the width of the logits.
"""

from typing import NamedTuple

import tensorflow as tf

from t2t_keras.decoding.settings import PAD_ID, BeamSearchSettings
from t2t_keras.decoding.top_k import top_k_of_rows
from t2t_keras.typing import Tensor

# The log probability of what cannot be.
IMPOSSIBLE = float("-inf")


class Candidates(NamedTuple):
    """The likeliest continuations of a sentence's live hypotheses, best first."""

    parents: Tensor  # [B, C] int32: index of the hypothesis continued
    tokens: Tensor  # [B, C] int32: the token added
    log_probs: Tensor  # [B, C] float32: of hypothesis and token together


def best_candidates(
    logits: Tensor,
    live_log_probs: Tensor,
    must_end: Tensor,
    *,
    vocabulary_size: int,
    settings: BeamSearchSettings,
) -> Candidates:
    """Returns the C likeliest continuations of each sentence.

    The C best of a sentence are among the C best of each of its hypotheses, so
    only those are normalised and compared; one more of each makes up for
    padding, which is never generated.

    Args:
        logits: [B, W, V] of any floating dtype; computed on as float32. V is
            at least `vocabulary_size`.
        live_log_probs: [B, W] float32, log probability of each hypothesis.
        must_end: [B] bool. Where true, EOS is the only continuation.
        vocabulary_size: Ids from here on are never generated.
        settings: Gives C and the id of EOS.

    Returns:
        `Candidates`. The log probability of what cannot be (a continuation of
        an impossible hypothesis, a token that may not follow) is minus
        infinity, and so is one that the model gives as NaN.

    Raises:
        ValueError: If the logits are too narrow, or of unknown width.
    """
    logits_BWV = tf.cast(logits, tf.float32)
    beam_size, width = logits_BWV.shape[1:]
    if width is None or width < vocabulary_size:
        raise ValueError(
            "The logits of the step function must have a static width of at least "
            f"vocabulary_size={vocabulary_size}. Received: logits.shape={logits.shape}"
        )
    kept = min(settings.candidates + 1, vocabulary_size)
    ids_BWK, logits_BWK = _best_tokens(logits_BWV[..., :vocabulary_size], kept)
    # At its limit a hypothesis has one continuation, whatever its rank was.
    must_end_B11 = must_end[:, None, None]
    end_BW1 = logits_BWV[..., settings.eos_id, None]
    only_end_K = tf.range(kept) == 0
    logits_BWK = tf.where(
        must_end_B11, tf.where(only_end_K, end_BW1, IMPOSSIBLE), logits_BWK
    )
    ids_BWK = tf.where(must_end_B11, settings.eos_id, ids_BWK)
    total_BW = tf.reduce_logsumexp(logits_BWV, axis=-1)
    # No rounding may lift a probability above 1: the early stop relies on it.
    log_probs_BWK = tf.minimum(logits_BWK - total_BW[..., None], 0.0)
    log_probs_BWK += live_log_probs[..., None]
    # A model that has lost its numbers finds nothing, and disturbs no neighbour.
    lost_BWK = tf.math.is_nan(log_probs_BWK)
    log_probs_BWK = tf.where(lost_BWK, IMPOSSIBLE, log_probs_BWK)
    log_probs_BC, index_BC = tf.math.top_k(
        tf.reshape(log_probs_BWK, [-1, beam_size * kept]), settings.candidates
    )
    ids_BX = tf.reshape(ids_BWK, [-1, beam_size * kept])
    tokens_BC = tf.gather(ids_BX, index_BC, batch_dims=1)
    return Candidates(index_BC // kept, tokens_BC, log_probs_BC)


def _best_tokens(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the `count` likeliest tokens of each hypothesis and their logits."""
    beam_size, width = logits.shape[1:]
    # Rows, for XLA has a fast top-k of two axes and a slow one of three.
    best_RK, ids_RK = top_k_of_rows(tf.reshape(logits, [-1, width]), count)
    best_BWK = tf.reshape(best_RK, [-1, beam_size, count])
    ids_BWK = tf.reshape(ids_RK, [-1, beam_size, count])
    return ids_BWK, tf.where(ids_BWK == PAD_ID, IMPOSSIBLE, best_BWK)
