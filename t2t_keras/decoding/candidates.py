"""Candidates of a beam search: the likeliest continuations, selected from logits.

Shapes: B sentences, W live hypotheses of each, K best continuations of each
hypothesis, C candidates of each sentence, V the width of the logits. In
`grouped_top_k`: R rows of V values, G groups of M neighbors that a row is cut into.
"""

from typing import NamedTuple

import tensorflow as tf

from t2t_keras.decoding.search_state import IMPOSSIBLE, axis_size
from t2t_keras.decoding.settings import PAD_ID, BeamSearchSettings
from t2t_keras.typing import Tensor

# Range of M. With 128 rows of 37,000 values on two cores, all of them took about a
# millisecond, an eighth of `tf.math.top_k` alone.
_GROUP_SIZES = range(24, 65)


def grouped_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the `k` largest values of each row, and their indices.

    Equal to `tf.math.top_k`, order among equals included, but reads a wide row
    only once, and quickly: for the largest value of each group. The K largest values
    are in the K groups with the largest such values, so only those are searched.

    Args:
        values: [R, V] float32. V is static.
        k: K, from 1 to V.

    Returns:
        `(values, indices)`, [R, K] float32 and int32, largest first; among
        equals the lower index comes first.
    """
    width = values.shape[1]
    if width <= k * _GROUP_SIZES[-1]:
        return tf.math.top_k(values, k)
    size = _group_size(width)
    missing = -width % size
    if missing:
        values = tf.pad(values, [[0, 0], [0, missing]], constant_values=float("-inf"))
    groups = (width + missing) // size
    values_RGM = tf.reshape(values, [-1, groups, size])
    _, groups_RK = tf.math.top_k(tf.reduce_max(values_RGM, axis=-1), k)
    # In the order of the row, or equals would change places.
    groups_RK = tf.sort(groups_RK, axis=-1)
    near_RKM = tf.gather(values_RGM, groups_RK, batch_dims=1)
    best_RK, index_RK = tf.math.top_k(tf.reshape(near_RKM, [-1, k * size]), k)
    group_RK = tf.gather(groups_RK, index_RK // size, batch_dims=1)
    return best_RK, group_RK * size + index_RK % size


def _group_size(width: int) -> int:
    """Returns M, a divisor of the width if possible, for padding copies every row."""
    whole = [size for size in _GROUP_SIZES if width % size == 0]
    return min(whole, key=lambda size: abs(size - 40), default=32)


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
    only those are normalized and compared.

    Args:
        logits: [B, W, V] of any floating dtype; computed on as float32. V is
            at least `vocabulary_size`.
        live_log_probs: [B, W] float32, log probability of each hypothesis.
        must_end: [B] bool. Where true, EOS is the only continuation.
        vocabulary_size: Ids from here on are never generated.
        settings: Gives C and the id of EOS.

    Returns:
        `Candidates`. An impossible continuation (of an impossible hypothesis, or by a
        token that may not follow) has a log probability of minus infinity, and so has
        one for which the model returns NaN.

    Raises:
        ValueError: If the logits are too narrow, or of unknown width.
    """
    logits_BWV = tf.cast(logits, tf.float32)
    width = logits_BWV.shape[2]
    if width is None or width < vocabulary_size:
        raise ValueError(
            "The logits of the step function must have a static width of at least "
            f"vocabulary_size={vocabulary_size}. Received: logits.shape={logits.shape}"
        )
    # One more in place of padding, which is never generated.
    count = min(settings.candidates + 1, vocabulary_size)
    beams = axis_size(live_log_probs, 1)
    # Two axes, for which XLA has a fast top-k; that of three axes is slow.
    logits_RV = tf.reshape(logits_BWV, [-1, width])
    best_RK, ids_RK = grouped_top_k(logits_RV[:, :vocabulary_size], count)
    total_R = _log_sum_exp(logits_RV, best_RK[:, 0], ids_RK[:, 0])
    best_RK = tf.where(ids_RK == PAD_ID, IMPOSSIBLE, best_RK)
    # At its limit a hypothesis has one continuation: EOS, even if it is not likely.
    must_end_BW = must_end[:, None] & tf.ones_like(live_log_probs, tf.bool)
    must_end_R1 = tf.reshape(must_end_BW, [-1, 1])
    only_end_K = tf.where(tf.range(count) == 0, 0.0, IMPOSSIBLE)
    best_RK = tf.where(
        must_end_R1, logits_RV[:, settings.eos_id, None] + only_end_K, best_RK
    )
    ids_RK = tf.where(must_end_R1, settings.eos_id, ids_RK)
    # No rounding may lift a probability above 1: the early stop relies on it.
    log_probs_RK = tf.minimum(best_RK - total_R[:, None], 0.0)
    log_probs_RK += tf.reshape(live_log_probs, [-1, 1])
    # NaN in one sentence has no effect on the others.
    log_probs_RK = tf.where(tf.math.is_nan(log_probs_RK), IMPOSSIBLE, log_probs_RK)
    return _select_best(ids_RK, log_probs_RK, beams, settings.candidates)


def _log_sum_exp(logits: Tensor, peaks: Tensor, peak_ids: Tensor) -> Tensor:
    """Returns log sum exp of each row, from the likeliest token that may follow.

    A softmax is one pass, the fastest way. If float32 rounds even the probability of
    that token to 0, the sum is infinite, and no token may follow.
    """
    peak_probs_R = tf.gather(tf.nn.softmax(logits), peak_ids, batch_dims=1)
    return peaks - tf.math.log(peak_probs_R)


def _select_best(
    ids: Tensor, log_probs: Tensor, beams: Tensor, count: int
) -> Candidates:
    """Returns the best of each sentence's continuations, [B W, K] of them."""
    per_beam = ids.shape[1]
    if per_beam < count:
        # In a tiny vocabulary one hypothesis has fewer than `count`.
        padding = [[0, 0], [0, count - per_beam]]
        ids = tf.pad(ids, padding)
        log_probs = tf.pad(log_probs, padding, constant_values=IMPOSSIBLE)
        per_beam = count
    ids_BX = tf.reshape(ids, [-1, beams * per_beam])
    log_probs_BX = tf.reshape(log_probs, [-1, beams * per_beam])
    log_probs_BC, index_BC = tf.math.top_k(log_probs_BX, count)
    tokens_BC = tf.gather(ids_BX, index_BC, batch_dims=1)
    return Candidates(index_BC // per_beam, tokens_BC, log_probs_BC)
