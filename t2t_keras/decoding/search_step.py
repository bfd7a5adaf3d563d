"""One step of a beam search: from what is alive to what lives on and what is done.

Shapes: B sentences, W live hypotheses of each, C candidates for the next step,
N hypotheses returned, L longest output, V width of the logits.
"""

import dataclasses
from typing import Protocol

import tensorflow as tf

from t2t_keras.decoding.candidates import Candidates, best_candidates
from t2t_keras.decoding.search_state import (
    IMPOSSIBLE,
    BeamSearchResult,
    Cache,
    State,
    size_of,
)
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.typing import Tensor


class StepFn(Protocol):
    """A model, as the search sees it: what may follow each live hypothesis."""

    def __call__(
        self,
        tokens: Tensor,
        position: Tensor,
        first_slot: Tensor,
        past: Tensor,
        cache: Cache,
        /,
    ) -> tuple[Tensor, Cache]:
        """Returns the logits of the token at `position`, and the new cache.

        A cache has X slots for each sentence, and a hypothesis writes to one of them
        at each step. Hypotheses change places from step to step, and one may go on as
        several. The search moves nothing for that: it says whose past is where.

        Args:
            tokens: [B, W] int32, the tokens at `position - 1`. At position 0 there
                is one hypothesis, W = 1, whose token is 0, the id that starts every
                decoder input.
            position: int32 scalar, from 0.
            first_slot: int32 scalar. Hypothesis w writes to slot `first_slot + w`.
            past: [B, W, X] bool, the slots that each hypothesis has been through, in
                their order; the one that it writes to now is the last.
            cache: What the previous call returned: a nest of tensors, [B, ...] each.

        Returns:
            `(logits, cache)`: [B, W, V] of any floating dtype, and a cache of
            the structure, shapes and dtypes that came in.
        """
        ...


@dataclasses.dataclass(frozen=True)
class SearchStep:
    """What all steps of one search share, and the step itself.

    Attributes:
        step_fn: The model.
        settings: How to search.
        beams: W, hypotheses that live after a step.
        own_beams: Whether sentences may have beams narrower than W.
        vocabulary_size: Ids from here on are never generated.
    """

    step_fn: StepFn
    settings: BeamSearchSettings
    beams: int | Tensor
    own_beams: bool
    vocabulary_size: int

    def __call__(self, state: State) -> State:
        """Returns the state at the next position."""
        state = _with_themselves(state)
        logits, cache = self.step_fn(
            state.last_tokens,
            state.position,
            state.first_slot,
            state.past,
            state.cache,
        )
        candidates = best_candidates(
            logits,
            state.live_log_probs,
            must_end=state.position + 1 >= state.sentences.limits,
            vocabulary_size=self.vocabulary_size,
            settings=self.settings,
        )
        if self.own_beams:
            candidates = _looked_at(candidates, state.sentences.beam_sizes)
        tokens_BCL = _append(state, candidates)
        ends_BC = candidates.tokens == self.settings.eos_id
        ended = _ended(state, candidates, tokens_BCL, ends_BC)
        new_state = self._live_on(candidates, tokens_BCL, ends_BC, cache, state)
        new_state = new_state._replace(finished=self._with_ended(state, ended))
        return self._stop_decided(new_state) if self.settings.early_stop else new_state

    def _live_on(
        self,
        candidates: Candidates,
        tokens: Tensor,
        ends: Tensor,
        cache: Cache,
        state: State,
    ) -> State:
        """Returns the state at the next position, with the W best that do not end."""
        going_on_BC = tf.where(ends, IMPOSSIBLE, candidates.log_probs)
        log_probs_BW, index_BW = tf.math.top_k(going_on_BC, self.beams)
        log_probs_BW = self._within_own_beam(log_probs_BW, state)
        parents_BW = _pick(candidates.parents, index_BW)
        return state._replace(
            position=state.position + 1,
            cache=cache,
            first_slot=state.first_slot + self.beams,
            past=_of_parents(state.past, parents_BW),
            last_tokens=_pick(candidates.tokens, index_BW),
            live_tokens=_pick(tokens, index_BW),
            live_log_probs=log_probs_BW,
        )

    def _with_ended(self, state: State, ended: BeamSearchResult) -> BeamSearchResult:
        """Returns the best of [B, W] finished and [B, C] newly ended hypotheses."""
        pairs = zip(state.finished, ended, strict=True)
        both = BeamSearchResult(*[tf.concat(pair, axis=1) for pair in pairs])
        # Among equals top_k takes the first, so nothing displaces its equal.
        _, index_BW = tf.math.top_k(both.scores, self.beams)
        best = BeamSearchResult(*[_pick(field, index_BW) for field in both])
        return best._replace(scores=self._within_own_beam(best.scores, state))

    def _within_own_beam(self, values: Tensor, state: State) -> Tensor:
        """Returns [B, W], best first, impossible outside a sentence's own beam."""
        if not self.own_beams:
            return values
        is_own_BW = tf.range(self.beams) < state.sentences.beam_sizes[:, None]
        return tf.where(is_own_BW, values, IMPOSSIBLE)

    def _stop_decided(self, state: State) -> State:
        """Returns the state without live hypotheses where the n best are final.

        A hypothesis can only lose probability, and no penalty is milder than
        that of the sentence's limit. If even so the best live one cannot pass
        the last of the n best, none can. Made impossible, they offer no
        candidates any more, which leaves the finished ones as they are.
        """
        sentences, results = state.sentences, self.settings.results
        mildest_B = tf.gather(sentences.penalties, sentences.limits, batch_dims=1)
        bound_B = state.live_log_probs[:, 0] / mildest_B
        last_B = state.finished.scores[:, results - 1]
        if self.own_beams:
            last = tf.minimum(sentences.beam_sizes, results) - 1
            last_B = tf.gather(state.finished.scores, last, batch_dims=1)
        live_BW = tf.where(
            (bound_B <= last_B)[:, None], IMPOSSIBLE, state.live_log_probs
        )
        return state._replace(live_log_probs=live_BW)


def _looked_at(candidates: Candidates, beam_sizes: Tensor) -> Candidates:
    """Returns the candidates, impossible where a narrower beam has fewer of them."""
    counts_B = tf.where(beam_sizes > 1, 2 * beam_sizes, 1)
    ranks_C = tf.range(size_of(candidates.log_probs, 1))
    log_probs_BC = tf.where(
        ranks_C < counts_B[:, None], candidates.log_probs, IMPOSSIBLE
    )
    return candidates._replace(log_probs=log_probs_BC)


def _append(state: State, candidates: Candidates) -> Tensor:
    """Returns [B, C, L] tokens: each candidate's parent and its new token."""
    tokens_BCL = _pick(state.live_tokens, candidates.parents)
    here_L = tf.range(size_of(tokens_BCL, 2)) == state.position
    return tf.where(here_L, candidates.tokens[..., None], tokens_BCL)


def _ended(
    state: State, candidates: Candidates, tokens: Tensor, ends: Tensor
) -> BeamSearchResult:
    """Returns the candidates as finished hypotheses; impossible if not `ends`."""
    length = state.position + 1
    log_probs_BC = tf.where(ends, candidates.log_probs, IMPOSSIBLE)
    scores_BC = log_probs_BC / state.sentences.penalties[:, length, None]
    lengths_BC = tf.zeros_like(candidates.tokens) + length
    return BeamSearchResult(tokens, lengths_BC, log_probs_BC, scores_BC)


def _with_themselves(state: State) -> State:
    """Returns the state with pasts that end in the slot that is written to now."""
    own_W1 = (state.first_slot + tf.range(size_of(state.past, 1)))[:, None]
    is_own_WX = tf.range(size_of(state.past, 2)) == own_W1
    return state._replace(past=state.past | is_own_WX)


def _of_parents(past: Tensor, parents: Tensor) -> Tensor:
    """Returns [B, W, X], the past of what descends from [B, W] parents."""
    return _pick(past, parents)


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """Returns `values[b, index[b, i]]` at [b, i]; both [B, ...]."""
    return tf.gather(values, index, batch_dims=1)
