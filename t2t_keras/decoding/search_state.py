"""State of a beam search from step to step, and its result.

Shapes: B sentences, W live hypotheses of each, N hypotheses returned, L longest
output.
"""

from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from t2t_keras.decoding.settings import (
    PAD_ID,
    BeamSearchSettings,
    RowOptions,
    length_penalty,
)
from t2t_keras.typing import Tensor

# Log probability of what cannot happen.
IMPOSSIBLE = float("-inf")


Cache: TypeAlias = Any


def size_of(tensor: Tensor, axis: int) -> int | Tensor:
    """Returns the length of an axis, as an int where it is known."""
    size = tensor.shape[axis]
    return tf.shape(tensor)[axis] if size is None else size


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


class Sentences(NamedTuple):
    """What belongs to each sentence and never changes."""

    rows: Tensor  # [B] int32: its row in what the caller gave
    limits: Tensor  # [B] int32, from 1 to L
    penalties: Tensor  # [B, L + 1] float32, by length
    beam_sizes: Tensor  # [B] int32, from 1 to W


class State(NamedTuple):
    """What the loop carries from one position to the next."""

    position: Tensor  # int32 scalar: index of the token chosen next
    cache: Cache  # nest of [B, ...], the step function's
    first_slot: Tensor  # int32 scalar: hypothesis w writes to slot first_slot + w
    past: Tensor  # [B, W, X] bool, before this position: see StepFn
    last_tokens: Tensor  # [B, W] int32: tokens at position - 1
    live_tokens: Tensor  # [B, W, L] int32: hypotheses without EOS, 0 from position on
    live_log_probs: Tensor  # [B, W] float32, best first; all impossible: sentence done
    finished: BeamSearchResult  # [B, W, ...]: hypotheses with EOS, best score first
    sentences: Sentences


def sentences_of(
    max_lengths: Tensor,
    max_decode_length: int | Tensor,
    settings: BeamSearchSettings,
    options: RowOptions | None,
) -> Sentences:
    """Returns what the settings, and options of its own, make of each sentence.

    Args:
        max_lengths: [B] int32.
        max_decode_length: L.
        settings: Of all of them.
        options: What each sentence has instead.
    """
    batch = size_of(max_lengths, 0)
    if options is None:
        options = RowOptions(
            tf.fill([batch], settings.beam_size),
            tf.fill([batch], tf.constant(settings.alpha, tf.float64)),
            max_lengths,
        )
    limits_B = tf.minimum(max_lengths, tf.cast(options.max_lengths, tf.int32))
    beam_sizes_B = tf.cast(options.beam_sizes, tf.int32)
    return Sentences(
        tf.range(batch),
        tf.clip_by_value(limits_B, 1, max_decode_length),
        _penalties(max_decode_length, tf.cast(options.alphas, tf.float64)),
        tf.clip_by_value(beam_sizes_B, 1, settings.beam_size),
    )


def _penalties(max_decode_length: int | Tensor, alphas: Tensor) -> Tensor:
    """Returns [B, L + 1] float32, each sentence's penalties of lengths 0 to L.

    Computed in float64 and rounded once: so it never falls from one length to
    the next, which float32 powers do not promise and the early stop needs.
    """
    lengths_L = tf.cast(tf.range(max_decode_length + 1), tf.float64)
    penalties_BL = length_penalty(lengths_L, tf.maximum(alphas, 0.0)[:, None])
    return tf.cast(penalties_BL, tf.float32)


def first_state(
    cache: Cache,
    sentences: Sentences,
    *,
    beams: int | Tensor,
    slots: int | Tensor,
    max_decode_length: int | Tensor,
) -> State:
    """Returns the state before position 0: nothing finished, one hypothesis alive.

    Args:
        cache: With `slots` slots.
        sentences: What is searched for.
        beams: W, that there is room for.
        slots: X, slots that the cache has.
        max_decode_length: L.
    """
    # Static where it is known, for the loop holds on to its first shapes.
    batch = size_of(sentences.limits, 0)
    zeros_BWL = tf.zeros([batch, beams, max_decode_length], tf.int32)
    none_BW = tf.fill([batch, beams], IMPOSSIBLE)
    return State(
        position=tf.constant(0),
        cache=cache,
        first_slot=tf.constant(0),
        past=tf.zeros([batch, 1, slots], tf.bool),
        last_tokens=tf.fill([batch, 1], PAD_ID),
        live_tokens=zeros_BWL[:, :1],
        live_log_probs=tf.zeros([batch, 1]),
        finished=BeamSearchResult(zeros_BWL, zeros_BWL[..., 0], none_BW, none_BW),
        sentences=sentences,
    )


def taken(state: State, index: Tensor) -> State:
    """Returns the state of some sentences.

    Args:
        state: Of B sentences.
        index: int32 vector, which of them.
    """
    return tf.nest.map_structure(
        lambda part: tf.gather(part, index) if part.shape.rank != 0 else part, state
    )


def slots_in_use(state: State) -> Tensor:
    """Returns [B, U] int32, the slots that a live hypothesis has been through.

    In their order. U is what the sentence with the most of them needs; the others
    have some besides that nobody has been through.
    """
    is_alive_BW = state.live_log_probs > IMPOSSIBLE
    is_used_BX = tf.reduce_any(state.past & is_alive_BW[..., None], axis=1)
    counts_B = tf.reduce_sum(tf.cast(is_used_BX, tf.int32), axis=1)
    most = tf.reduce_max(tf.concat([counts_B, [0]], axis=0))
    in_order_BX = tf.argsort(tf.cast(~is_used_BX, tf.int32), axis=1, stable=True)
    return in_order_BX[:, :most]


def with_slots(state: State, index: Tensor, more: int | Tensor) -> State:
    """Returns the state with some of its slots, and new ones after them.

    Args:
        state: The cache is the caller's to change.
        index: [B, U] int32, the slots to keep.
        more: How many new ones.
    """
    batch, beams = tf.unstack(tf.shape(state.past)[:2])
    kept = tf.shape(index)[1]
    index_BWU = tf.broadcast_to(index[:, None], [batch, beams, kept])
    past_BWU = tf.gather(state.past, index_BWU, batch_dims=2)
    past_BWX = tf.pad(past_BWU, [[0, 0], [0, 0], [0, more]])
    return state._replace(past=past_BWX, first_slot=kept)
