"""Beam search with the Transformer, and scores of given translations.

The model may be an ensemble, and the search restricted to a shortlist.

Shapes: B sentences, S source length, T target length, W beams, X slots of a KV cache, D
model width, V vocabulary, R positions whose logits are in memory at a time.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.decoding.beam_search import beam_search
from t2t_keras.decoding.in_place_cache import grow_state
from t2t_keras.decoding.search_state import IMPOSSIBLE, BeamSearchResult, axis_size
from t2t_keras.decoding.search_step import StepFn
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions, is_given
from t2t_keras.decoding.shortlist import (
    NUM_SPECIAL_IDS,
    Shortlist,
    to_options,
    to_result,
)
from t2t_keras.model.kv_cache import DecodeState
from t2t_keras.model.transformer import DecodeKernels, Transformer
from t2t_keras.text.padding import shift_right
from t2t_keras.typing import DECODER_INPUT_TOKENS, ENCODER_INPUT_TOKENS, Tensor

# R of `target_log_probs`. With 37,000 subwords these logits take 80 MB; those of 32
# long sentences would take gigabytes.
ROWS_AT_A_TIME = 512


class EnsembleState(NamedTuple):
    """State of an ensemble before a step: that of each model."""

    members: list[DecodeState]


class Ensemble:
    """Transformers that search together, with the mean of their probabilities.

    The probability of the next token is the arithmetic mean of what the models give it
    after the same tokens (ADR 0027). The methods are those of a `Transformer`, with a
    state for each model, so a search does not know how many models it has.

    Args:
        models: Models of one vocabulary. Their other sizes may differ.

    Raises:
        ValueError: If there is no model, or their vocabularies differ in size.
    """

    def __init__(self, models: Sequence[Transformer]):
        sizes = sorted({model.sizes["vocabulary_size"] for model in models})
        if len(sizes) != 1:
            raise ValueError(
                "An ensemble must have models of one vocabulary. Received models with "
                f"vocabulary_size={sizes}"
            )
        self.models = tuple(models)
        self.sizes = {"vocabulary_size": sizes[0]}

    @property
    def max_positions(self) -> int | None:
        """Maximum number of tokens for which each model has positions."""
        limits = [model.max_positions for model in self.models]
        return min((each for each in limits if each is not None), default=None)

    def prefill(
        self, source: Tensor, slots: int | Tensor, shortlist: Tensor | None = None
    ) -> EnsembleState:
        """Returns the state before the first `decode_step`.

        The arguments are those of `Transformer.prefill`.
        """
        return EnsembleState(
            [model.prefill(source, slots, shortlist) for model in self.models]
        )

    def decode_kernels(self) -> list[DecodeKernels]:
        """Returns the kernels of each model for `decode_step`."""
        return [model.decode_kernels() for model in self.models]

    def decode_step(
        self,
        tokens: Tensor,
        position: Tensor | int,
        first_slot: Tensor | int,
        visible_slots: Tensor,
        state: EnsembleState,
        kernels: Sequence[DecodeKernels],
    ) -> tuple[Tensor, EnsembleState]:
        """Returns log of the mean probabilities [B, W, V] float32, and the state.

        They are normalized, so as logits they give the mean. The arguments are those of
        `Transformer.decode_step`.
        """
        logits, states = [], []
        members = zip(self.models, state.members, kernels, strict=True)
        for model, own_state, own_kernels in members:
            logits_BWV, new_state = model.decode_step(
                tokens, position, first_slot, visible_slots, own_state, own_kernels
            )
            logits.append(tf.nn.log_softmax(tf.cast(logits_BWV, tf.float32)))
            states.append(new_state)
        return _log_mean(logits), EnsembleState(states)


def _log_mean(log_probs: Sequence[Tensor]) -> Tensor:
    """Returns log((exp x_1 + ... + exp x_N) / N) of N tensors.

    By a log-sum-exp: a probability too small for float32 still has its logarithm.
    """
    total = tf.reduce_logsumexp(tf.stack(log_probs), axis=0)
    return total - math.log(len(log_probs))


def search_translations(
    model: Transformer | Ensemble,
    source: Tensor,
    settings: BeamSearchSettings,
    extra_length: int,
    options: RowOptions | None = None,
    *,
    shortlist: Shortlist | None = None,
    max_length: int | None = None,
    growing: bool = True,
) -> BeamSearchResult:
    """Returns the best translations of source ids [B, S] int32, padded with 0.

    A translation may have `extra_length` tokens more than its own source, which need
    not be the longest of the batch (section 6.1). A source without a token, EOS aside,
    becomes EOS at once, so that a blank line does not hold up its batch. A first token
    that is given counts for the length of a translation, not for its probability.

    Args:
        model: The Transformer, or several of them.
        source: [B, S] int32.
        settings: Beam size, length penalty and number of results.
        extra_length: Tokens that a translation may have more than its source.
        options: Settings and inputs of each sentence. A source without a token becomes
            EOS whatever its prefix.
        shortlist: Restricts the tokens of each sentence. Probabilities are normalized
            over them (ADR 0029). Default: all of the vocabulary.
        max_length: Maximum number of tokens of any translation, EOS counted.
        growing: Whether KV caches grow and finished sentences leave the batch. Faster,
            but not for XLA, which needs constant shapes, S included.

    Raises:
        ValueError: As `beam_search`; or if the shortlist is for another vocabulary, or
            `eos_id` or `suppressed` is not a special id, or first tokens are given, and
            there is a shortlist.
    """
    options = RowOptions() if options is None else options
    length = axis_size(source, 1) + extra_length
    limits_B = tf.reduce_sum(tf.cast(source != 0, tf.int32), axis=1) + extra_length
    is_text_BS = (source != 0) & (source != settings.eos_id)
    is_text_B = tf.reduce_any(is_text_BS, axis=1)
    limits_B = tf.where(is_text_B, limits_B, 1)
    if model.max_positions is not None:
        # Tokens past the last learned position would be indistinguishable.
        limits_B = tf.minimum(limits_B, model.max_positions)
    if max_length is not None:
        limits_B = tf.minimum(limits_B, max_length)
        length = tf.minimum(length, max_length)
    # Each model takes the state and kernels that it returned.
    decode_step: Any = model.decode_step
    step_fn = functools.partial(decode_step, kernels=model.decode_kernels())
    vocabulary_size, words_BN = model.sizes["vocabulary_size"], None
    if is_given(options.first_tokens):
        if shortlist is not None:
            raise ValueError("A search with first tokens takes no shortlist.")
        first_B = tf.where(is_text_B, options.first_tokens, settings.eos_id)
        step_fn = functools.partial(_step_after_first, step_fn, first_B)
        # After the first token there is room for EOS at least.
        length = tf.maximum(length, 2)
        limits_B = tf.where(is_text_B, tf.maximum(limits_B, 2), limits_B)
        if is_given(options.max_lengths):
            at_least_2_B = tf.maximum(options.max_lengths, 2)
            options = options._replace(max_lengths=at_least_2_B)
    if shortlist is not None:
        _check_shortlist(shortlist, vocabulary_size, settings)
        words_BN = shortlist.select(source, options)
        vocabulary_size, options = shortlist.size, to_options(words_BN, options)
    slots = 0 if growing else length * settings.beam_size
    result = beam_search(
        step_fn,
        model.prefill(source, slots, words_BN),
        max_lengths=limits_B,
        max_decode_length=length,
        vocabulary_size=vocabulary_size,
        settings=settings,
        options=options,
        grow_fn=_grow if growing else None,
    )
    return result if words_BN is None else to_result(words_BN, result)


def _step_after_first(
    step_fn: StepFn, first_tokens: Tensor, tokens: Tensor, position: Tensor, *rest: Any
) -> tuple[Tensor, Any]:
    """Returns what a step of the model does; at position 0 only a given token follows.

    The arguments are those of `StepFn`, after the model's step and [B] int32.
    """
    logits_BWV, cache = step_fn(tokens, position, *rest)
    # With first tokens, step 0 is a trace of its own, before the loop.
    if tf.get_static_value(position) != 0:
        return logits_BWV, cache
    is_first_BV = tf.one_hot(first_tokens, logits_BWV.shape[2], True, False)
    only_BWV = tf.where(is_first_BV[:, None], 0.0, IMPOSSIBLE)
    return tf.cast(only_BWV, logits_BWV.dtype), cache


def target_log_probs(
    model: Transformer | Ensemble,
    source: Tensor,
    target: Tensor,
    rows_at_a_time: int = ROWS_AT_A_TIME,
    *,
    first_is_given: bool = False,
) -> Tensor:
    """Returns the log probability of each target token after those before it.

    The target is read, not searched (teacher forcing). An ensemble's probability is the
    mean of its models'.

    Args:
        model: The Transformer, or several of them.
        source: [B, S] int32, each row ended by EOS and padded with 0.
        target: [B, T] int32, likewise.
        rows_at_a_time: R, at least 1.
        first_is_given: Whether the first token of a target, unless it is its only one,
            has the probability 1, as in `search_translations`.

    Returns:
        [B, T] float32, natural logs over the whole vocabulary, softmax in float32;
        0 at padding.
    """
    if first_is_given:
        log_probs_BT = target_log_probs(model, source, target, rows_at_a_time)
        has_second_B1 = tf.pad(target, [[0, 0], [0, 1]])[:, 1:2] != 0
        is_first_T = tf.range(tf.shape(target)[1]) == 0
        return tf.where(has_second_B1 & is_first_T, 0.0, log_probs_BT)
    if isinstance(model, Ensemble):
        log_probs_BT = _log_mean(
            [
                target_log_probs(one, source, target, rows_at_a_time)
                for one in model.models
            ]
        )
        return tf.where(target == 0, 0.0, log_probs_BT)
    batch = {
        ENCODER_INPUT_TOKENS: source,
        DECODER_INPUT_TOKENS: shift_right(target),
    }
    hidden_BTD = model.hidden_states(batch)
    width = hidden_BTD.shape[-1]
    positions = tf.size(target)
    missing = -positions % rows_at_a_time
    hidden = tf.pad(tf.reshape(hidden_BTD, [-1, width]), [[0, missing], [0, 0]])
    target_X = tf.pad(tf.reshape(target, [-1]), [[0, missing]])

    def score_block(args: tuple[Tensor, Tensor]) -> Tensor:
        hidden_RD, target_R = args
        logits_RV = model.embedding.logits(hidden_RD[None])[0]
        logits_RV = tf.cast(logits_RV, tf.float32)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(target_R, logits_RV)

    log_probs = tf.map_fn(
        score_block,
        (
            tf.reshape(hidden, [-1, rows_at_a_time, width]),
            tf.reshape(target_X, [-1, rows_at_a_time]),
        ),
        parallel_iterations=1,
        fn_output_signature=tf.TensorSpec([rows_at_a_time], tf.float32),
    )
    log_probs = tf.reshape(log_probs, [-1])[:positions]
    log_probs_BT = tf.reshape(log_probs, tf.shape(target))
    return tf.where(target == 0, 0.0, log_probs_BT)


def _check_shortlist(
    shortlist: Shortlist, vocabulary_size: int, settings: BeamSearchSettings
) -> None:
    if shortlist.vocabulary_size != vocabulary_size:
        raise ValueError(
            f"The shortlist must be for the model's vocabulary of {vocabulary_size} "
            f"tokens. Received one for {shortlist.vocabulary_size}"
        )
    if max(settings.eos_id, *settings.suppressed, 0) >= NUM_SPECIAL_IDS:
        raise ValueError(
            "With a shortlist, eos_id and suppressed must be special ids, below "
            f"{NUM_SPECIAL_IDS}. Received: {settings}"
        )


_State = DecodeState | EnsembleState


def _grow(state: _State, kept_slots: Tensor, new_slots: Tensor) -> _State:
    if isinstance(state, EnsembleState):
        members = [grow_state(one, kept_slots, new_slots) for one in state.members]
        return EnsembleState(members)
    return grow_state(state, kept_slots, new_slots)
