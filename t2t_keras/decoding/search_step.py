"""Beam search step: live hypotheses, candidates, live and finished ones.

Shapes: B sentences, W live hypotheses of each, C candidates for the next step,
N hypotheses returned, X slots of a cache, L longest output, V width of the logits.
"""

import dataclasses
from typing import Protocol

import tensorflow as tf

from t2t_keras.decoding.candidates import (
    Candidates,
    Demands,
    best_candidates,
    forbidden_tokens,
)
from t2t_keras.decoding.search_state import (
    IMPOSSIBLE,
    BeamSearchResult,
    Cache,
    SearchState,
    axis_size,
    forced_tokens,
    is_live,
)
from t2t_keras.decoding.settings import BeamSearchSettings, is_given
from t2t_keras.typing import Tensor


class StepFn(Protocol):
    """Step function of a model: logits after each live hypothesis."""

    def __call__(
        self,
        tokens: Tensor,
        position: Tensor,
        first_slot: Tensor,
        visible_slots: Tensor,
        cache: Cache,
        /,
    ) -> tuple[Tensor, Cache]:
        """Returns the logits of the token at `position`, and the new cache.

        A cache has X slots for each sentence, and a hypothesis writes to one of them
        at each step: `DecoderLayer.step` in `model/decoder.py` calls `KVCache.write`.
        Hypotheses change places from step to step, and one may continue as several.
        The search does not move slots for that: `visible_slots` says for each
        hypothesis which slots hold its past.

        Args:
            tokens: [B, W] int32, the tokens at `position - 1`. At position 0 there
                is one hypothesis, W = 1, whose token is 0, the id that starts every
                decoder input.
            position: int32 scalar, from 0.
            first_slot: int32 scalar. Hypothesis w writes to slot `first_slot + w`.
            visible_slots: [B, W, X] bool, the slots that each hypothesis and its
                ancestors wrote to, in their order; the one that it writes to now is
                the last.
            cache: The cache from the previous call: a nest of tensors, [B, ...] each.

        Returns:
            `(logits, cache)`: [B, W, V] of any floating dtype, and a cache of
            the structure, shapes and dtypes that came in.
        """
        ...


@dataclasses.dataclass(frozen=True)
class SearchStep:
    """One step of a search, and the settings that all its steps share.

    Attributes:
        step_fn: The model.
        settings: Beam size, length penalty and number of results.
        beams: W, hypotheses that live after a step.
        per_sentence_beams: Whether sentences may have beams narrower than W.
        vocabulary_size: Ids from here on are never generated.
    """

    step_fn: StepFn
    settings: BeamSearchSettings
    beams: int | Tensor
    per_sentence_beams: bool
    vocabulary_size: int

    def run(self, state: SearchState) -> SearchState:
        """Returns the state when no hypothesis is live, or the cache is full."""

        def has_work(state: SearchState) -> Tensor:
            slots = tf.shape(state.visible_slots)[2]
            return tf.reduce_any(is_live(state)) & (state.first_slot < slots)

        def next_state(state: SearchState) -> tuple[SearchState]:
            return (tf.nest.map_structure(_keep_shape, state, self(state)),)

        (state,) = tf.while_loop(has_work, next_state, (state,))
        return state

    def __call__(self, state: SearchState) -> SearchState:
        """Returns the state at the next position."""
        state = _include_current_slot(state)
        logits, cache = self.step_fn(
            state.last_tokens,
            state.position,
            state.first_slot,
            state.visible_slots,
            state.cache,
        )
        candidates = self.select_candidates(state, logits)
        tokens_BCL = append_tokens(state, candidates)
        ends_BC = candidates.tokens == self.settings.eos_id
        finished = self._select_finished(state, candidates, tokens_BCL, ends_BC)
        state = self._select_live(state, candidates, tokens_BCL, ends_BC)
        state = state._replace(cache=cache, finished=finished)
        return self._stop_early(state) if self.settings.early_stop else state

    def select_candidates(self, state: SearchState, logits: Tensor) -> Candidates:
        """Returns the continuations to consider, given the logits [B, W, V]."""
        forced = None
        if is_given(state.sentences.prefixes):
            forced = forced_tokens(
                state.sentences, state.position, self.settings.eos_id
            )
        candidates = best_candidates(
            logits,
            state.live_log_probs,
            must_end=state.position + 1 >= state.sentences.limits,
            vocabulary_size=self.vocabulary_size,
            settings=self.settings,
            forbidden=forbidden_tokens(
                state.live_tokens,
                state.position,
                vocabulary_size=self.vocabulary_size,
                settings=self.settings,
            ),
            forced=forced,
            demands=self._demands(state),
        )
        return self._limit(candidates, state)

    def _demands(self, state: SearchState) -> Demands | None:
        """Returns what hypotheses miss before they may end; None for nothing."""
        del state
        return None

    def _limit(self, candidates: Candidates, state: SearchState) -> Candidates:
        """Returns the candidates, impossible beyond a sentence's own number."""
        if self.per_sentence_beams:
            return _limit_candidates(candidates, state.sentences.beam_sizes)
        return candidates

    def _select_live(
        self, state: SearchState, candidates: Candidates, tokens: Tensor, ends: Tensor
    ) -> SearchState:
        """Returns the state at the next position, with the W best that do not end."""
        log_probs_BC = tf.where(ends, IMPOSSIBLE, candidates.log_probs)
        log_probs_BW, index_BW = tf.math.top_k(log_probs_BC, self.beams)
        log_probs_BW = self._mask_outside_beam(log_probs_BW, state)
        return self._continue(state, candidates, tokens, log_probs_BW, index_BW)

    def _continue(
        self,
        state: SearchState,
        candidates: Candidates,
        tokens: Tensor,
        log_probs: Tensor,
        index: Tensor,
    ) -> SearchState:
        """Returns the state at the next position, with the candidates at `index`."""
        parents_BW = _gather(candidates.parents, index)
        return state._replace(
            position=state.position + 1,
            first_slot=state.first_slot + self.beams,
            visible_slots=_inherit_slots(state.visible_slots, parents_BW),
            last_tokens=_gather(candidates.tokens, index),
            live_tokens=_gather(tokens, index),
            live_log_probs=log_probs,
        )

    def _select_finished(
        self, state: SearchState, candidates: Candidates, tokens: Tensor, ends: Tensor
    ) -> BeamSearchResult:
        """Returns the W best of those finished before and those that end now."""
        ended = score_ended(state, candidates, tokens, ends)
        pairs = zip(state.finished, ended, strict=True)
        both = BeamSearchResult(*[tf.concat(pair, axis=1) for pair in pairs])
        # Among equals top_k selects the first, so the earlier hypothesis stays.
        _, index_BW = tf.math.top_k(both.scores, self.beams)
        best = BeamSearchResult(*[_gather(field, index_BW) for field in both])
        return best._replace(scores=self._mask_outside_beam(best.scores, state))

    def _mask_outside_beam(self, values: Tensor, state: SearchState) -> Tensor:
        """Returns [B, W], best first, impossible outside a sentence's own beam."""
        if not self.per_sentence_beams:
            return values
        is_own_BW = tf.range(self.beams) < state.sentences.beam_sizes[:, None]
        return tf.where(is_own_BW, values, IMPOSSIBLE)

    def _stop_early(self, state: SearchState) -> SearchState:
        """Returns the state without live hypotheses where the n best are final.

        A hypothesis can only lose probability, and no penalty is milder than
        that of the sentence's limit. If the best live one cannot exceed the
        last of the n best under that penalty, none can. As impossible
        hypotheses they have no candidates, so the finished ones do not change.
        """
        sentences, results = state.sentences, self.settings.results
        mildest_B = tf.gather(sentences.penalties, sentences.limits, batch_dims=1)
        bound_B = state.live_log_probs[:, 0] / mildest_B
        last_B = state.finished.scores[:, results - 1]
        if self.per_sentence_beams:
            last = tf.minimum(sentences.beam_sizes, results) - 1
            last_B = tf.gather(state.finished.scores, last, batch_dims=1)
        live_BW = tf.where(
            (bound_B <= last_B)[:, None], IMPOSSIBLE, state.live_log_probs
        )
        return state._replace(live_log_probs=live_BW)


def _include_current_slot(state: SearchState) -> SearchState:
    """Returns the state in which each hypothesis sees the slot that it writes to."""
    slots = state.visible_slots
    current_W1 = (state.first_slot + tf.range(axis_size(slots, 1)))[:, None]
    is_current_WX = tf.range(axis_size(slots, 2)) == current_W1
    return state._replace(visible_slots=slots | is_current_WX)


def _limit_candidates(candidates: Candidates, beam_sizes: Tensor) -> Candidates:
    """Returns the candidates, impossible where a narrower beam has fewer of them."""
    counts_B = tf.where(beam_sizes > 1, 2 * beam_sizes, 1)
    ranks_C = tf.range(axis_size(candidates.log_probs, 1))
    log_probs_BC = tf.where(
        ranks_C < counts_B[:, None], candidates.log_probs, IMPOSSIBLE
    )
    return candidates._replace(log_probs=log_probs_BC)


def append_tokens(state: SearchState, candidates: Candidates) -> Tensor:
    """Returns [B, C, L] tokens: each candidate's parent and its new token."""
    tokens_BCL = _gather(state.live_tokens, candidates.parents)
    here_L = tf.range(axis_size(tokens_BCL, 2)) == state.position
    return tf.where(here_L, candidates.tokens[..., None], tokens_BCL)


def score_ended(
    state: SearchState, candidates: Candidates, tokens: Tensor, ends: Tensor
) -> BeamSearchResult:
    """Returns the candidates as finished hypotheses; impossible if not `ends`."""
    length = state.position + 1
    log_probs_BC = tf.where(ends, candidates.log_probs, IMPOSSIBLE)
    scores_BC = log_probs_BC / state.sentences.penalties[:, length, None]
    lengths_BC = tf.zeros_like(candidates.tokens) + length
    return BeamSearchResult(tokens, lengths_BC, log_probs_BC, scores_BC)


def _inherit_slots(visible_slots: Tensor, parents: Tensor) -> Tensor:
    """Returns [B, W, X], the slots that each of the [B, W] parents could see."""
    return _gather(visible_slots, parents)


def _gather(values: Tensor, index: Tensor) -> Tensor:
    """Returns `values[b, index[b, i]]` at [b, i]; both [B, ...]."""
    return tf.gather(values, index, batch_dims=1)


def _keep_shape(before: Tensor, after: Tensor) -> Tensor:
    """Returns `after` with the static shape of `before`."""
    return tf.ensure_shape(after, before.shape)
