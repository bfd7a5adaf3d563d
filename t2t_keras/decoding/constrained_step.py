"""Step of a search whose outputs must have given terms.

Hypotheses that miss the same number of tokens of their terms share a bank. Each bank
has some places of the beam, in turn, so that hypotheses with terms do not lose to
likelier ones without (dynamic beam allocation; Post and Vilar 2018, ADR 0037).

Shapes: B sentences, W live hypotheses of each, X candidates, C terms, P tokens of the
longest term.
"""

import tensorflow as tf

from t2t_keras.decoding.candidates import Candidates, Demands
from t2t_keras.decoding.search_state import IMPOSSIBLE, SearchState, axis_size
from t2t_keras.decoding.search_step import SearchStep
from t2t_keras.decoding.terms import TermProgress, progress_after
from t2t_keras.typing import Tensor


class ConstrainedStep(SearchStep):
    """One step of a search for outputs with terms, `SentenceSettings.terms`.

    A hypothesis ends only when all its terms have occurred.
    """

    def _demands(self, state: SearchState) -> Demands:
        terms, progress = state.sentences.terms, state.progress
        return Demands(
            progress.next_tokens(terms), tf.reduce_any(~progress.is_met, axis=2)
        )

    def _limit(self, candidates: Candidates, state: SearchState) -> Candidates:
        """Returns the candidates, impossible where their bank has enough better ones.

        A sentence without terms has one bank, so the rest is that of another search.
        """
        sizes_B = state.sentences.beam_sizes
        counts_B1 = tf.where(sizes_B > 1, 2 * sizes_B, 1)[:, None]
        banks_BX = _progress_after(state, candidates).remaining(state.sentences.terms)
        ranks_BX = _ranks_in_banks(candidates.log_probs, banks_BX, state)
        log_probs_BX = tf.where(ranks_BX < counts_B1, candidates.log_probs, IMPOSSIBLE)
        return candidates._replace(log_probs=log_probs_BX)

    def _select_live(
        self, state: SearchState, candidates: Candidates, tokens: Tensor, ends: Tensor
    ) -> SearchState:
        """Returns the state at the next position: the best of each bank in turn."""
        log_probs_BX = tf.where(ends, IMPOSSIBLE, candidates.log_probs)
        progress = _progress_after(state, candidates)
        banks_BX = progress.remaining(state.sentences.terms)
        ranks_BX = _ranks_in_banks(log_probs_BX, banks_BX, state)
        # Of equal ranks those that miss fewer tokens.
        turns_BX = ranks_BX * _bank_count(state) + banks_BX
        turns_BX = tf.where(log_probs_BX > IMPOSSIBLE, turns_BX, tf.int32.max)
        _, chosen_BW = tf.math.top_k(-turns_BX, self.beams)
        chosen_log_probs_BW = tf.gather(log_probs_BX, chosen_BW, batch_dims=1)
        chosen_log_probs_BW = self._mask_outside_beam(chosen_log_probs_BW, state)
        log_probs_BW, order_BW = tf.math.top_k(chosen_log_probs_BW, self.beams)
        index_BW = tf.gather(chosen_BW, order_BW, batch_dims=1)
        state = self._continue(state, candidates, tokens, log_probs_BW, index_BW)
        return state._replace(progress=progress.take(index_BW))


def _progress_after(state: SearchState, candidates: Candidates) -> TermProgress:
    return progress_after(
        state.progress, candidates.parents, candidates.tokens, state.sentences.terms
    )


def _bank_count(state: SearchState) -> int | Tensor:
    """Returns more than the number of tokens of all terms of a sentence."""
    terms = state.sentences.terms
    return axis_size(terms, 1) * axis_size(terms, 2) + 1


def _ranks_in_banks(log_probs: Tensor, banks: Tensor, state: SearchState) -> Tensor:
    """Returns [B, X] int32, how many candidates of its bank are before each.

    Candidates are in the order of their log probabilities, where they are possible.
    """
    is_possible_BX1 = (log_probs > IMPOSSIBLE)[..., None]
    is_own_BXQ = tf.equal(banks[..., None], tf.range(_bank_count(state)))
    members_BXQ = tf.cast(is_own_BXQ & is_possible_BX1, tf.int32)
    before_BXQ = tf.cumsum(members_BXQ, axis=1, exclusive=True)
    return tf.reduce_sum(tf.where(is_own_BXQ, before_BXQ, 0), axis=2)
