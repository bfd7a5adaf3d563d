"""Beam search over any step function.

Shapes: B sentences, W live hypotheses of each, C candidates for the next step,
N hypotheses returned, L longest output, V width of the logits.
"""

import dataclasses
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.candidates import IMPOSSIBLE, Candidates, best_candidates
from t2t_keras.decoding.length_penalty import length_penalty
from t2t_keras.decoding.settings import PAD_ID, BeamSearchSettings
from t2t_keras.typing import Tensor

Cache: TypeAlias = Any


class StepFn(Protocol):
    """A model, as the search sees it: what may follow each live hypothesis.

    Whatever does not differ between the hypotheses of a sentence (the encoded
    source, its keys and values) belongs in the function's closure, not in the
    cache: the search reorders the cache at every step and tiles nothing.
    """

    def __call__(
        self, tokens: Tensor, position: Tensor, cache: Cache, /
    ) -> tuple[Tensor, Cache]:
        """Returns the logits of the token at `position`, and the new cache.

        Args:
            tokens: [B, W] int32, the tokens at `position - 1`. At position 0
                they are all 0, the id that starts every decoder input.
            position: int32 scalar, from 0.
            cache: What the previous call returned, rows reordered so that
                [b, w] belongs to the hypothesis that `tokens[b, w]` ends.

        Returns:
            `(logits, cache)`: [B, W, V] of any floating dtype, and a cache of
            the structure, shapes and dtypes that came in.
        """
        ...


class BeamSearchResult(NamedTuple):
    """The n best hypotheses of each sentence, best first.

    Where a sentence has fewer than N hypotheses (a tiny limit or vocabulary),
    the last slots are empty: tokens 0, length 0, log probability and score
    minus infinity.
    """

    tokens: Tensor  # [B, N, L] int32: ids up to and including the EOS, then 0
    lengths: Tensor  # [B, N] int32: number of tokens, the EOS counted
    log_probs: Tensor  # [B, N] float32: log p(tokens), as the model gives it
    scores: Tensor  # [B, N] float32: log_probs / length_penalty(lengths)


class _State(NamedTuple):
    """What the loop carries from one position to the next."""

    position: Tensor  # int32 scalar: index of the token chosen next
    cache: Cache  # nest of [B, W, ...], the step function's
    last_tokens: Tensor  # [B, W] int32: tokens at position - 1
    live_tokens: Tensor  # [B, W, L] int32: hypotheses without EOS, 0 from position on
    live_log_probs: Tensor  # [B, W] float32, best first; all impossible: sentence done
    finished: BeamSearchResult  # [B, W, ...]: hypotheses with EOS, best score first


def beam_search(
    step_fn: StepFn,
    cache: Cache,
    *,
    max_lengths: Tensor,
    max_decode_length: int | Tensor,
    vocabulary_size: int,
    settings: BeamSearchSettings,
) -> BeamSearchResult:
    """Returns the best-scoring outputs of `step_fn` that a beam finds.

    Live hypotheses are ranked by log probability; finished ones, kept apart,
    by log probability over length penalty. At a sentence's length limit only
    EOS may follow, so every hypothesis finishes and every score is that of a
    whole sentence. A sentence's result depends on nothing but its own row.

    Runs eagerly, in a `tf.function` and under XLA. B and L may be unknown when a
    graph is traced, so that one graph serves all sizes; XLA wants them known.

    Args:
        step_fn: The model; see `StepFn`.
        cache: The model's state before position 0: a nest of tensors, each
            [B, W, ...] of any dtype, W static. May hold no tensor at all, as `{}`.
        max_lengths: [B] int, most tokens of each output, the EOS counted.
            Below 1 it is taken as 1 (an EOS alone), above `max_decode_length`
            as that.
        max_decode_length: L, at least 1: how many tokens there is room for. An
            int, or an int32 scalar.
        vocabulary_size: Where logits are wider, ids from here on are never
            generated. They keep their share of probability, as padding does:
            log probabilities are the model's own.
        settings: Beam size, length penalty and number of results.

    Returns:
        A `BeamSearchResult`, N = `settings.results` and best first.

    Raises:
        ValueError: If an argument's range or static shape is wrong.

    Source: section 6.1 of "Attention Is All You Need"; ADR 0008.
    """
    cache = tf.nest.map_structure(tf.convert_to_tensor, cache)
    limits_B = tf.cast(max_lengths, tf.int32)
    _check_sizes(max_decode_length, vocabulary_size, settings)
    _check_shapes(cache, limits_B, settings.beam_size)
    search = _Search(
        step_fn,
        settings,
        vocabulary_size,
        limits=tf.clip_by_value(limits_B, 1, max_decode_length),
        penalties=_penalty_table(max_decode_length, settings.alpha),
    )
    (state,) = tf.while_loop(
        search.goes_on,
        search.step,
        (search.start(cache),),
        maximum_iterations=max_decode_length,
    )
    best = [field[:, : settings.results] for field in state.finished]
    return BeamSearchResult(*best)


def _check_sizes(
    max_decode_length: int | Tensor, vocabulary_size: int, settings: BeamSearchSettings
) -> None:
    """Raises ValueError where a number cannot be meant."""
    if isinstance(max_decode_length, int) and max_decode_length < 1:
        raise ValueError(
            "max_decode_length must be at least 1. "
            f"Received: max_decode_length={max_decode_length}"
        )
    if vocabulary_size <= settings.eos_id:
        raise ValueError(
            f"vocabulary_size must be more than eos_id={settings.eos_id}. "
            f"Received: vocabulary_size={vocabulary_size}"
        )


def _check_shapes(cache: Cache, max_lengths: Tensor, beam_size: int) -> None:
    """Raises ValueError where a tensor's static shape does not fit."""
    if max_lengths.shape.rank != 1:
        raise ValueError(
            "max_lengths must have shape [B]. "
            f"Received: max_lengths.shape={max_lengths.shape}"
        )
    for shape in [tensor.shape for tensor in tf.nest.flatten(cache)]:
        beams = shape[1] if shape.rank is not None and shape.rank > 1 else None
        if beams != beam_size:
            raise ValueError(
                "Every tensor of the cache must have shape [B, W, ...], with "
                f"W = beam_size = {beam_size}. Received: {shape}"
            )


def _penalty_table(max_decode_length: int | Tensor, alpha: float) -> Tensor:
    """Returns [L + 1] float32, the penalties of lengths 0 to L.

    Computed in float64 and rounded once: so it never falls from one length to
    the next, which float32 powers do not promise and the early stop needs.
    """
    if isinstance(max_decode_length, int):
        lengths = np.arange(max_decode_length + 1)
        return tf.constant(length_penalty(lengths, alpha), tf.float32)
    lengths = tf.cast(tf.range(max_decode_length + 1), tf.float64)
    return tf.cast(length_penalty(lengths, alpha), tf.float32)


@dataclasses.dataclass(frozen=True)
class _Search:
    """What all steps of one search share, and the steps themselves."""

    step_fn: StepFn
    settings: BeamSearchSettings
    vocabulary_size: int
    limits: Tensor  # [B] int32, from 1 to L
    penalties: Tensor  # [L + 1] float32

    def start(self, cache: Cache) -> _State:
        """Returns the state before position 0: nothing finished, one live."""
        width, length = self.settings.beam_size, _size(self.penalties, 0) - 1
        # Static where it is known, for the loop holds on to its first shapes.
        batch = _size(self.limits, 0)
        zeros_BW = tf.zeros([batch, width], tf.int32)
        zeros_BWL = tf.zeros([batch, width, length], tf.int32)
        none_BW = tf.fill([batch, width], IMPOSSIBLE)
        # All W hypotheses are still the empty one: only the first may live, or
        # the beam would fill with W copies.
        start_BW = tf.where(tf.range(width) == 0, 0.0, none_BW)
        return _State(
            position=tf.constant(0),
            cache=cache,
            last_tokens=zeros_BW + PAD_ID,
            live_tokens=zeros_BWL,
            live_log_probs=start_BW,
            finished=BeamSearchResult(zeros_BWL, zeros_BW, none_BW, none_BW),
        )

    def goes_on(self, state: _State) -> Tensor:
        """Returns a bool scalar: whether any sentence has a live hypothesis."""
        return tf.reduce_any(state.live_log_probs > IMPOSSIBLE)

    def step(self, state: _State) -> tuple[_State]:
        """Returns the state at the next position."""
        logits, cache = self.step_fn(state.last_tokens, state.position, state.cache)
        candidates = best_candidates(
            logits,
            state.live_log_probs,
            must_end=state.position + 1 >= self.limits,
            vocabulary_size=self.vocabulary_size,
            settings=self.settings,
        )
        tokens_BCL = _append(state, candidates)
        ends_BC = candidates.tokens == self.settings.eos_id
        ended = self._ended(state, candidates, tokens_BCL, ends_BC)
        new_state = _live_on(candidates, tokens_BCL, ends_BC, cache, state)
        new_state = new_state._replace(finished=_best_of(state.finished, ended))
        if self.settings.early_stop:
            new_state = self._stop_decided(new_state)
        return (tf.nest.map_structure(_keep_shape, state, new_state),)

    def _ended(
        self, state: _State, candidates: Candidates, tokens: Tensor, ends: Tensor
    ) -> BeamSearchResult:
        """Returns the candidates as finished hypotheses; impossible if not `ends`."""
        length = state.position + 1
        log_probs_BC = tf.where(ends, candidates.log_probs, IMPOSSIBLE)
        scores_BC = log_probs_BC / self.penalties[length]
        lengths_BC = tf.zeros_like(candidates.tokens) + length
        return BeamSearchResult(tokens, lengths_BC, log_probs_BC, scores_BC)

    def _stop_decided(self, state: _State) -> _State:
        """Returns the state without live hypotheses where the n best are final.

        A hypothesis can only lose probability, and no penalty is milder than
        that of the sentence's limit. If even so the best live one cannot pass
        the last of the n best, none can. Made impossible, they offer no
        candidates any more, which leaves the finished ones as they are.
        """
        bound_B = state.live_log_probs[:, 0] / tf.gather(self.penalties, self.limits)
        final_B = bound_B <= state.finished.scores[:, self.settings.results - 1]
        live_BW = tf.where(final_B[:, None], IMPOSSIBLE, state.live_log_probs)
        return state._replace(live_log_probs=live_BW)


def _append(state: _State, candidates: Candidates) -> Tensor:
    """Returns [B, C, L] tokens: each candidate's parent and its new token."""
    tokens_BCL = _pick(state.live_tokens, candidates.parents)
    here_L = tf.range(_size(tokens_BCL, 2)) == state.position
    return tf.where(here_L, candidates.tokens[..., None], tokens_BCL)


def _best_of(finished: BeamSearchResult, ended: BeamSearchResult) -> BeamSearchResult:
    """Returns the best of [B, W] finished and [B, C] newly ended hypotheses."""
    both = [tf.concat(pair, axis=1) for pair in zip(finished, ended, strict=True)]
    # Among equals top_k takes the first, so nothing displaces its equal.
    _, index_BW = tf.math.top_k(both[-1], finished.scores.shape[1])
    return BeamSearchResult(*[_pick(field, index_BW) for field in both])


def _live_on(
    candidates: Candidates, tokens: Tensor, ends: Tensor, cache: Cache, state: _State
) -> _State:
    """Returns the state at the next position, with the W best that do not end."""
    going_on_BC = tf.where(ends, IMPOSSIBLE, candidates.log_probs)
    log_probs_BW, index_BW = tf.math.top_k(going_on_BC, state.last_tokens.shape[1])
    parents_BW = _pick(candidates.parents, index_BW)
    return state._replace(
        position=state.position + 1,
        cache=tf.nest.map_structure(lambda part: _reorder(part, parents_BW), cache),
        last_tokens=_pick(candidates.tokens, index_BW),
        live_tokens=_pick(tokens, index_BW),
        live_log_probs=log_probs_BW,
    )


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """Returns `values[b, index[b, i]]` at [b, i]; both [B, ...]."""
    return tf.gather(values, index, batch_dims=1)


def _reorder(part: Tensor, parents: Tensor) -> Tensor:
    """Returns [B, W, ...] of the cache, as `_pick` would, in less time.

    Copying one flat row per hypothesis takes three quarters of the time of a
    gather over all axes, and keys and values make this the dearest part of a
    step after the model itself.
    """
    shape = [_size(part, axis) for axis in range(part.shape.rank)]
    first_row_B1 = tf.range(shape[0])[:, None] * shape[1]
    rows_R = tf.reshape(first_row_B1 + parents, [-1])
    flat_RX = tf.reshape(part, [shape[0] * shape[1], *shape[2:]])
    return tf.reshape(tf.gather(flat_RX, rows_R), shape)


def _size(tensor: Tensor, axis: int) -> int | Tensor:
    """Returns the length of an axis, as an int where it is known."""
    size = tensor.shape[axis]
    return tf.shape(tensor)[axis] if size is None else size


def _keep_shape(before: Tensor, after: Tensor) -> Tensor:
    """Returns `after`, with what is known of the shape of `before`."""
    return tf.ensure_shape(after, before.shape)
