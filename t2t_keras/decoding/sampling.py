"""Ancestral sampling: translations drawn from the model's distribution.

Each token is drawn by the Gumbel-max trick: noise is added to the logits, and the
largest sum wins. The noise is a hash of (seed of the row, number of the sample,
position, token), as in ADR 0013, so that a sample depends neither on its batch nor on
the program that draws it (ADR 0026).

Shapes: B sentences, W samples of each, R = B W rows, V vocabulary, K tokens that may be
drawn, L longest output.
"""

import tensorflow as tf

from t2t_keras.decoding.candidates import Candidates, forbidden_tokens, grouped_top_k
from t2t_keras.decoding.search_state import (
    IMPOSSIBLE,
    BeamSearchResult,
    SearchState,
    forced_tokens,
)
from t2t_keras.decoding.search_step import SearchStep, score_ended
from t2t_keras.decoding.settings import PAD_ID, SamplingSettings
from t2t_keras.model.dropout import fold_in, mix
from t2t_keras.typing import Tensor


class Sampling(SamplingSettings):
    """Settings of sampling, and the draw of a token by them.

    `SamplingSettings` describes the settings.
    """

    def make_step(self, *arguments) -> "SamplingStep":
        """Returns the step of a search that samples; arguments of `SearchStep`."""
        return SamplingStep(*arguments)

    def draw(self, logits: Tensor, keys: Tensor) -> Tensor:
        """Returns a token for each row, [R] int32.

        Args:
            logits: [R, V] float32, minus infinity for tokens that may not be drawn.
                V is static.
            keys: [R] uint32, key of each row's noise.
        """
        values_RK, ids_RK = self.filter(logits)
        perturbed_RK = values_RK + gumbel_noise(keys, ids_RK)
        index_R = tf.argmax(perturbed_RK, axis=1, output_type=tf.int32)
        ids_RK = ids_RK + tf.zeros_like(perturbed_RK, tf.int32)
        return tf.gather(ids_RK, index_R, batch_dims=1)

    def filter(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the logits of tokens that may be drawn, divided by the temperature.

        Args:
            logits: As in `draw`.

        Returns:
            `(values, ids)`: [R, K] float32, minus infinity for a token that may not be
            drawn; and [R, K] or [1, K] int32.
        """
        values_RV = logits / self.temperature
        width = logits.shape[1]
        if not self.top_k and self.top_p == 1.0:
            return values_RV, tf.range(width)[None]
        values_RK, ids_RK = grouped_top_k(values_RV, min(self.top_k or width, width))
        if self.top_p < 1.0:
            probs_RK = tf.nn.softmax(values_RK)
            likelier_RK = tf.cumsum(probs_RK, axis=1, exclusive=True)
            values_RK = tf.where(likelier_RK < self.top_p, values_RK, IMPOSSIBLE)
        return values_RK, ids_RK


def gumbel_noise(keys: Tensor, ids: Tensor) -> Tensor:
    """Returns noise of the standard Gumbel distribution, [R, K] float32.

    Args:
        keys: [R] uint32.
        ids: [R, K] or [1, K] int32. The noise of a token depends on its id and the key.
    """
    bits_RK = mix(tf.bitwise.bitwise_xor(mix(tf.cast(ids, tf.uint32)), keys[:, None]))
    # Near 0, where float32 is finest, so that large noise has no equals.
    uniform_RK = (tf.cast(bits_RK, tf.float32) + 0.5) * 2.0**-32
    uniform_RK = tf.minimum(uniform_RK, 1.0 - 2.0**-24)
    return -tf.math.log(-tf.math.log1p(-uniform_RK))


def row_keys(seeds: Tensor) -> Tensor:
    """Returns keys of rows, [B] uint32, of int64 seeds [B]."""
    words_B2 = tf.bitcast(tf.cast(seeds, tf.int64), tf.uint32)
    return fold_in(words_B2[:, 0], words_B2[:, 1])


class SamplingStep(SearchStep):
    """One step of sampling: each of W hypotheses keeps its place to the end."""

    def select_candidates(self, state: SearchState, logits: Tensor) -> Candidates:
        """Returns one continuation of each hypothesis, [B, W], in their order."""
        batch, width = tf.shape(logits)[0], logits.shape[2]
        # All samples continue the one empty hypothesis.
        logits_BWV = tf.broadcast_to(
            tf.cast(logits, tf.float32), [batch, self.beams, width]
        )
        allowed_BWV = self._allowed(state, logits_BWV)
        tokens_BW = self._draw_tokens(state, allowed_BWV)
        forced_B = forced_tokens(state.sentences, state.position, self.settings.eos_id)
        tokens_BW = tf.where(forced_B[:, None] != PAD_ID, forced_B[:, None], tokens_BW)
        drawn_BW = tf.gather(logits_BWV, tokens_BW, batch_dims=2)
        total_BW = tf.reduce_logsumexp(logits_BWV, axis=2)
        if self.settings.renormalize:
            is_forced_B1 = forced_B[:, None] != PAD_ID
            allowed_BW = tf.reduce_logsumexp(allowed_BWV, axis=2)
            total_BW = tf.where(is_forced_B1, drawn_BW, allowed_BW)
        log_probs_BW = tf.minimum(drawn_BW - total_BW, 0.0)
        log_probs_BW += state.live_log_probs
        log_probs_BW = tf.where(tf.math.is_nan(log_probs_BW), IMPOSSIBLE, log_probs_BW)
        parents_W = tf.minimum(
            tf.range(self.beams), tf.shape(state.live_log_probs)[1] - 1
        )
        parents_BW = tf.broadcast_to(parents_W, [batch, self.beams])
        return Candidates(parents_BW, tokens_BW, log_probs_BW)

    def _allowed(self, state: SearchState, logits: Tensor) -> Tensor:
        """Returns the logits [B, W, V] of tokens that may follow, others impossible."""
        allowed_BWV = logits[..., : self.vocabulary_size]
        cannot_BWV = tf.math.is_nan(allowed_BWV)
        cannot_BWV |= tf.range(self.vocabulary_size) == PAD_ID
        forbidden = forbidden_tokens(
            state.live_tokens,
            state.position,
            vocabulary_size=self.vocabulary_size,
            settings=self.settings,
        )
        if forbidden is not None:
            cannot_BWV |= forbidden
        return tf.where(cannot_BWV, IMPOSSIBLE, allowed_BWV)

    def _draw_tokens(self, state: SearchState, allowed: Tensor) -> Tensor:
        """Returns a token for each hypothesis, [B, W] int32, from `_allowed`."""
        keys_B = row_keys(state.sentences.seeds)
        keys_BW = fold_in(
            fold_in(keys_B[:, None], tf.range(self.beams)), state.position
        )
        tokens_R = self.settings.sampling.draw(
            tf.reshape(allowed, [-1, self.vocabulary_size]),
            tf.reshape(keys_BW, [-1]),
        )
        return tf.reshape(tokens_R, tf.shape(keys_BW))

    def _select_live(
        self, state: SearchState, candidates: Candidates, tokens: Tensor, ends: Tensor
    ) -> SearchState:
        log_probs_BW = tf.where(ends, IMPOSSIBLE, candidates.log_probs)
        index_BW = tf.broadcast_to(tf.range(self.beams), tf.shape(log_probs_BW))
        return self._continue(state, candidates, tokens, log_probs_BW, index_BW)

    def _select_finished(
        self, state: SearchState, candidates: Candidates, tokens: Tensor, ends: Tensor
    ) -> BeamSearchResult:
        ended = score_ended(state, candidates, tokens, ends)
        is_new_BW = ended.log_probs > IMPOSSIBLE
        tokens_BWL = tf.where(is_new_BW[..., None], ended.tokens, state.finished.tokens)
        others = zip(ended[1:], state.finished[1:], strict=True)
        return BeamSearchResult(
            tokens_BWL, *[tf.where(is_new_BW, new, old) for new, old in others]
        )

    def _stop_early(self, state: SearchState) -> SearchState:
        return state
