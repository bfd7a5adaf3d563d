"""State of a beam search from step to step, and its result.

Shapes: B sentences, W live hypotheses of each, N hypotheses returned, X slots of a
cache, L longest output.
"""

from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from t2t_keras.decoding.settings import (
    PAD_ID,
    BeamSearchSettings,
    RowOptions,
    is_given,
    length_penalty,
)
from t2t_keras.typing import Tensor

# Log probability of an impossible event.
IMPOSSIBLE = float("-inf")

# A nest of tensors [B, ...] that a step function takes and returns.
Cache: TypeAlias = Any


def axis_size(tensor: Tensor, axis: int) -> int | Tensor:
    """Returns the length of an axis, as an int if it is static."""
    size = tensor.shape[axis]
    return tf.shape(tensor)[axis] if size is None else size


class BeamSearchResult(NamedTuple):
    """The n best hypotheses of each sentence, best first.

    Where a sentence has fewer than N hypotheses (a tiny limit or vocabulary),
    the last places are empty: tokens 0, length 0, log probability and score
    minus infinity.
    """

    tokens: Tensor  # [B, N, L] int32: ids up to and including the EOS, then 0
    lengths: Tensor  # [B, N] int32: number of tokens, the EOS counted
    log_probs: Tensor  # [B, N] float32: log p(tokens), as the model gives it
    scores: Tensor  # [B, N] float32: log_probs / length_penalty(lengths)


class SentenceSettings(NamedTuple):
    """Limit, penalties and beam size of each sentence, constant during a search.

    They come from the common settings and the sentence's own `RowOptions`.
    """

    rows: Tensor  # [B] int32: row of the sentence in the caller's batch
    limits: Tensor  # [B] int32, from 1 to L
    penalties: Tensor  # [B, L + 1] float32, by length
    beam_sizes: Tensor  # [B] int32, from 1 to W
    prefixes: Tensor = ()  # [B, P] int32, or () without
    seeds: Tensor = ()  # [B] int64, or () without
    terms: Tensor = ()  # [B, C, P] int32, or () without: those that fit


class SearchState(NamedTuple):
    """Tensors that the search carries from one position to the next."""

    position: Tensor  # int32 scalar: index of the token chosen next
    cache: Cache  # nest of [B, ...], the step function's
    first_slot: Tensor  # int32 scalar: hypothesis w writes to slot first_slot + w
    visible_slots: Tensor  # [B, W, X] bool, before this position: see StepFn
    last_tokens: Tensor  # [B, W] int32: tokens at position - 1
    live_tokens: Tensor  # [B, W, L] int32: hypotheses without EOS, 0 from position on
    live_log_probs: Tensor  # [B, W] float32, best first; all impossible: sentence done
    finished: BeamSearchResult  # [B, W, ...]: hypotheses with EOS, best score first
    sentences: SentenceSettings
    progress: Any = ()  # `TermProgress` of the live hypotheses, or () without terms


def is_live(state: SearchState) -> Tensor:
    """Returns [B] bool, whether a sentence has a live hypothesis."""
    return tf.reduce_any(state.live_log_probs > IMPOSSIBLE, axis=1)


def sentence_settings(
    max_lengths: Tensor,
    max_decode_length: int | Tensor,
    settings: BeamSearchSettings,
    options: RowOptions | None,
) -> SentenceSettings:
    """Returns the settings of each sentence: the common ones, or its own.

    Args:
        max_lengths: [B] int32.
        max_decode_length: L.
        settings: Common settings.
        options: Settings and inputs of each sentence.
    """
    options = RowOptions() if options is None else options
    batch = axis_size(max_lengths, 0)
    beam_sizes_B, alphas_B, limits_B = options[:3]
    if not is_given(beam_sizes_B):
        beam_sizes_B = tf.fill([batch], settings.beam_size)
    if not is_given(alphas_B):
        alphas_B = tf.fill([batch], tf.constant(settings.alpha, tf.float64))
    if not is_given(limits_B):
        limits_B = max_lengths
    limits_B = tf.minimum(max_lengths, tf.cast(limits_B, tf.int32))
    return SentenceSettings(
        tf.range(batch),
        tf.clip_by_value(limits_B, 1, max_decode_length),
        _length_penalties(
            max_decode_length,
            tf.cast(alphas_B, tf.float64),
            settings.length_penalty,
        ),
        tf.clip_by_value(tf.cast(beam_sizes_B, tf.int32), 1, settings.beam_size),
        tf.cast(options.prefixes, tf.int32) if is_given(options.prefixes) else (),
        tf.cast(options.seeds, tf.int64) if is_given(options.seeds) else (),
    )


def forced_tokens(sentences: SentenceSettings, position: Tensor, eos_id: int) -> Tensor:
    """Returns [B] int32, the only token that may be at a position; 0 where any may.

    That is EOS at a sentence's limit, and before it the token of its prefix.
    """
    forced_B = tf.zeros_like(sentences.limits)
    if is_given(sentences.prefixes):
        padding = [[0, 0], [0, 1]]
        padded_BP = tf.pad(sentences.prefixes, padding, constant_values=PAD_ID)
        last = tf.shape(sentences.prefixes)[1]
        forced_B = tf.gather(padded_BP, tf.minimum(position, last), axis=1)
    return tf.where(position + 1 >= sentences.limits, eos_id, forced_B)


def _length_penalties(
    max_decode_length: int | Tensor, alphas: Tensor, kind: str
) -> Tensor:
    """Returns [B, L + 1] float32, each sentence's penalties of lengths 0 to L.

    Computed in float64 and rounded once, so that it never falls from one length to the
    next. The early stop needs that, and float32 powers do not guarantee it.
    """
    lengths_L = tf.cast(tf.range(max_decode_length + 1), tf.float64)
    penalties_BL = length_penalty(lengths_L, tf.maximum(alphas, 0.0)[:, None], kind)
    return tf.cast(penalties_BL, tf.float32)


def initial_state(
    cache: Cache,
    sentences: SentenceSettings,
    *,
    beams: int | Tensor,
    slots: int | Tensor,
    max_decode_length: int | Tensor,
) -> SearchState:
    """Returns the state before position 0: one live hypothesis, none finished.

    Args:
        cache: With `slots` slots.
        sentences: Settings of each sentence.
        beams: W, maximum number of hypotheses of a sentence.
        slots: X, number of slots of the cache.
        max_decode_length: L.
    """
    # Static if known, because the loop keeps its initial shapes.
    batch = axis_size(sentences.limits, 0)
    zeros_BWL = tf.zeros([batch, beams, max_decode_length], tf.int32)
    none_BW = tf.fill([batch, beams], IMPOSSIBLE)
    return SearchState(
        position=tf.constant(0),
        cache=cache,
        first_slot=tf.constant(0),
        visible_slots=tf.zeros([batch, 1, slots], tf.bool),
        last_tokens=tf.fill([batch, 1], PAD_ID),
        live_tokens=zeros_BWL[:, :1],
        live_log_probs=tf.zeros([batch, 1]),
        finished=BeamSearchResult(zeros_BWL, zeros_BWL[..., 0], none_BW, none_BW),
        sentences=sentences,
    )
