"""Candidates of a beam search: the likeliest continuations, selected from logits.

Shapes: B sentences, W live hypotheses of each, K best continuations of each
hypothesis, C candidates of each sentence, V the width of the logits. In
`grouped_top_k`: R rows of V values, G groups of M neighbors that a row is cut into.
"""

import functools
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


class Demands(NamedTuple):
    """What hypotheses miss before they may end."""

    tokens: Tensor  # [B, W, M] int32: tokens that bring it nearer, 0 for none
    is_unmet: Tensor  # [B, W] bool: whether EOS is impossible


def best_candidates(
    logits: Tensor,
    live_log_probs: Tensor,
    must_end: Tensor,
    *,
    vocabulary_size: int,
    settings: BeamSearchSettings,
    forbidden: Tensor | None = None,
    forced: Tensor | None = None,
    demands: Demands | None = None,
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
        forbidden: Tokens that may not follow, from `forbidden_tokens`. An end that
            `must_end` demands is possible all the same.
        forced: [B] int32, the only token that may follow, EOS included; 0 where others
            may. Replaces `must_end`.
        demands: If given, all continuations that were compared are returned, and with
            them those by these tokens, which may even be forbidden.

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
    if settings.renormalize:
        # As if the others had no logit: the sums below are then of what may follow.
        cannot_V = tf.range(vocabulary_size) == PAD_ID
        forbidden = cannot_V if forbidden is None else cannot_V | forbidden
    if forbidden is None:
        best_RK, ids_RK = grouped_top_k(logits_RV[:, :vocabulary_size], count)
        total_R = _log_sum_exp(logits_RV, best_RK[:, 0], ids_RK[:, 0])
    else:
        allowed_BWV = tf.where(forbidden, IMPOSSIBLE, logits_BWV[..., :vocabulary_size])
        allowed_RV = tf.reshape(allowed_BWV, [-1, vocabulary_size])
        best_RK, ids_RK = grouped_top_k(allowed_RV, count)
        # The probability of the best that is allowed may be too small for float32.
        of = allowed_RV if settings.renormalize else logits_RV
        total_R = tf.reduce_logsumexp(of, axis=1)
    best_RK = tf.where(ids_RK == PAD_ID, IMPOSSIBLE, best_RK)
    if demands is not None:
        best_RK, ids_RK = _add_demanded(best_RK, ids_RK, logits_RV, demands)
    # At its limit a hypothesis has one continuation: EOS, even if it is not likely.
    only_token, only_logit_R1 = settings.eos_id, logits_RV[:, settings.eos_id, None]
    if forced is not None:
        must_end = forced != PAD_ID
        only_token = tf.repeat(forced, beams)[:, None]
        only_logit_R1 = tf.gather(logits_RV, only_token, batch_dims=1)
    must_end_BW = must_end[:, None] & tf.ones_like(live_log_probs, tf.bool)
    must_end_R1 = tf.reshape(must_end_BW, [-1, 1])
    columns_K = tf.range(axis_size(best_RK, 1))
    only_end_K = tf.where(columns_K == 0, 0.0, IMPOSSIBLE)
    best_RK = tf.where(must_end_R1, only_logit_R1 + only_end_K, best_RK)
    if settings.renormalize:
        total_R = tf.where(must_end_R1[:, 0], only_logit_R1[:, 0], total_R)
    ids_RK = tf.where(must_end_R1, only_token, ids_RK)
    # No rounding may lift a probability above 1: the early stop relies on it.
    log_probs_RK = tf.minimum(best_RK - total_R[:, None], 0.0)
    log_probs_RK += tf.reshape(live_log_probs, [-1, 1])
    # NaN in one sentence has no effect on the others.
    log_probs_RK = tf.where(tf.math.is_nan(log_probs_RK), IMPOSSIBLE, log_probs_RK)
    if demands is not None:
        is_unmet_R1 = tf.reshape(demands.is_unmet, [-1, 1])
        is_early_RK = is_unmet_R1 & (ids_RK == settings.eos_id)
        log_probs_RK = tf.where(is_early_RK, IMPOSSIBLE, log_probs_RK)
    missing = max(settings.candidates - count, 0)
    ids_RK, log_probs_RK = _pad_continuations(ids_RK, log_probs_RK, missing)
    selected = settings.candidates
    if demands is not None:
        selected = beams * axis_size(ids_RK, 1)
    return _select_best(ids_RK, log_probs_RK, beams, selected)


def _add_demanded(
    best: Tensor, ids: Tensor, logits: Tensor, demands: Demands
) -> tuple[Tensor, Tensor]:
    """Returns logits and ids [R, K] with those of demanded tokens, each token once."""
    # Not -1, which is unknown if there are no terms.
    shape = [axis_size(logits, 0), axis_size(demands.tokens, 2)]
    more_RM = tf.reshape(demands.tokens, shape)
    is_more_RK = tf.reduce_any(tf.equal(ids[..., None], more_RM[:, None]), axis=2)
    best = tf.where(is_more_RK, IMPOSSIBLE, best)
    columns_M = tf.range(axis_size(more_RM, 1))
    is_same_RMM = tf.equal(more_RM[..., None], more_RM[:, None])
    is_earlier_MM = columns_M[:, None] > columns_M
    is_double_RM = tf.reduce_any(is_same_RMM & is_earlier_MM, axis=2)
    logits_RM = tf.gather(logits, more_RM, batch_dims=1)
    logits_RM = tf.where(is_double_RM | (more_RM == PAD_ID), IMPOSSIBLE, logits_RM)
    return tf.concat([best, logits_RM], axis=1), tf.concat([ids, more_RM], axis=1)


def forbidden_tokens(
    live_tokens: Tensor,
    position: Tensor,
    *,
    vocabulary_size: int,
    settings: BeamSearchSettings,
) -> Tensor | None:
    """Returns bool that broadcasts to [B, W, V], tokens that settings rule out here.

    Returns None if the settings rule out none at any position.

    Args:
        live_tokens: [B, W, L] int32, the hypotheses, 0 from `position` on.
        position: int32 scalar, index of the token chosen next.
        vocabulary_size: V.
        settings: Settings of the search.
    """
    rules = []
    if settings.suppressed:
        ids_V1 = tf.range(vocabulary_size)[:, None]
        is_one_V = tf.reduce_any(ids_V1 == settings.suppressed, axis=1)
        rules.append(is_one_V[None, None])
    if settings.min_length:
        is_end_V = tf.range(vocabulary_size) == settings.eos_id
        rules.append((is_end_V & (position < settings.min_length))[None, None])
    if settings.no_repeat_ngram:
        rules.append(
            _repeating_tokens(
                live_tokens, position, settings.no_repeat_ngram, vocabulary_size
            )
        )
    return functools.reduce(tf.logical_or, rules) if rules else None


def _repeating_tokens(
    live_tokens: Tensor, position: Tensor, n: int, vocabulary_size: int
) -> Tensor:
    """Returns [B, W, V] bool, tokens that would complete an n-gram a second time."""
    batch, beams = axis_size(live_tokens, 0), axis_size(live_tokens, 1)
    length = axis_size(live_tokens, 2)
    padding = [[0, 0], [0, 0], [0, n - 1]]
    padded_BWL = tf.pad(live_tokens, padding, constant_values=PAD_ID)
    # An n-gram that ends before `position` begins at `starts`.
    starts_L = tf.range(length)
    matches_BWL = tf.ones_like(live_tokens, tf.bool) & (starts_L + n <= position)
    for offset in range(n - 1):
        last = tf.maximum(position - (n - 1) + offset, 0)
        last_BW1 = tf.gather(live_tokens, last, axis=2)[..., None]
        matches_BWL &= padded_BWL[..., offset : offset + length] == last_BW1
    next_BWL = padded_BWL[..., n - 1 : n - 1 + length]
    # Padding, which is never generated, stands for no token.
    next_RL = tf.reshape(tf.where(matches_BWL, next_BWL, PAD_ID), [-1, length])
    rows_RL = tf.range(batch * beams)[:, None] + tf.zeros_like(next_RL)
    counts_RV = tf.scatter_nd(
        tf.stack([rows_RL, next_RL], axis=-1),
        tf.ones_like(next_RL),
        [batch * beams, vocabulary_size],
    )
    return tf.reshape(counts_RV > 0, [batch, beams, vocabulary_size])


def _log_sum_exp(logits: Tensor, peaks: Tensor, peak_ids: Tensor) -> Tensor:
    """Returns log sum exp of each row, from the likeliest token that may follow.

    A softmax is one pass, the fastest way. If float32 rounds even the probability of
    that token to 0, the sum is infinite, and no token may follow.
    """
    peak_probs_R = tf.gather(tf.nn.softmax(logits), peak_ids, batch_dims=1)
    return peaks - tf.math.log(peak_probs_R)


def _pad_continuations(
    ids: Tensor, log_probs: Tensor, missing: int
) -> tuple[Tensor, Tensor]:
    """Returns both with more columns: in a tiny vocabulary there are few tokens."""
    if not missing:
        return ids, log_probs
    padding = [[0, 0], [0, missing]]
    return (
        tf.pad(ids, padding),
        tf.pad(log_probs, padding, constant_values=IMPOSSIBLE),
    )


def _select_best(
    ids: Tensor, log_probs: Tensor, beams: Tensor, count: int | Tensor
) -> Candidates:
    """Returns the best of each sentence's continuations, [B W, K] of them."""
    per_beam = axis_size(ids, 1)
    ids_BX = tf.reshape(ids, [-1, beams * per_beam])
    log_probs_BX = tf.reshape(log_probs, [-1, beams * per_beam])
    log_probs_BC, index_BC = tf.math.top_k(log_probs_BX, count)
    tokens_BC = tf.gather(ids_BX, index_BC, batch_dims=1)
    return Candidates(index_BC // per_beam, tokens_BC, log_probs_BC)
