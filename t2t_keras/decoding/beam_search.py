"""Beam search over any step function.

Shapes: B sentences, W live hypotheses of each, N hypotheses returned, L longest
output, V width of the logits.
"""

from typing import Protocol

import tensorflow as tf

from t2t_keras.decoding.search_state import (
    IMPOSSIBLE,
    BeamSearchResult,
    Cache,
    State,
    first_state,
    sentences_of,
    slots_in_use,
    taken,
    with_slots,
)
from t2t_keras.decoding.search_step import SearchStep, StepFn
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.typing import Tensor

# Positions that a growing cache grows by. Growing copies it; a larger step reads
# more slots that nobody has written yet or needs any more, and lets sentences that are
# done stay.
_BLOCK = 8


class GrowFn(Protocol):
    """Makes room in a cache."""

    def __call__(self, cache: Cache, index: Tensor, more: Tensor, /) -> Cache:
        """Returns the cache with some of its slots, and new ones after them.

        Args:
            cache: A nest of tensors, [B, ...] each.
            index: [B, U] int32, the slots of each sentence to keep, in that order.
            more: int32 scalar, how many new ones.
        """
        ...


def beam_search(
    step_fn: StepFn,
    cache: Cache,
    *,
    max_lengths: Tensor,
    max_decode_length: int | Tensor,
    vocabulary_size: int,
    settings: BeamSearchSettings,
    options: RowOptions | None = None,
    grow_fn: GrowFn | None = None,
) -> BeamSearchResult:
    """Returns the best-scoring outputs of `step_fn` that a beam finds.

    Live hypotheses are ranked by log probability; finished ones, kept apart,
    by log probability over length penalty. At a sentence's length limit only
    EOS may follow, so every hypothesis finishes and every score is that of a
    whole sentence. A sentence's result depends on nothing but its own row.

    Runs eagerly, in a `tf.function` and under XLA. B and L may be unknown when a
    graph is traced, so that one graph serves all sizes; XLA wants them known, and
    neither `options` nor `grow_fn`.

    Args:
        step_fn: The model; see `StepFn`.
        cache: The model's state before position 0: a nest of tensors, each
            [B, ...] of any dtype. What differs between sentences and not between
            steps belongs here too. May hold no tensor at all, as `{}`.
        max_lengths: [B] int, most tokens of each output, the EOS counted.
            Below 1 it is taken as 1 (an EOS alone), above `max_decode_length`
            as that.
        max_decode_length: L, at least 1: how many tokens there is room for. An
            int, or an int32 scalar.
        vocabulary_size: Where logits are wider, ids from here on are never
            generated. They keep their share of probability, as padding does:
            log probabilities are the model's own.
        settings: Beam size, length penalty and number of results.
        options: What each sentence has instead; see `RowOptions`.
        grow_fn: If given, `cache` has no slot yet and is grown, by some positions
            at a time. Slots that no live hypothesis has been through, and sentences
            that are done, are left out then. Without it, `cache` has L W slots, and
            everything stays to the end.

    Returns:
        A `BeamSearchResult`, N = `settings.results` and best first.

    Raises:
        ValueError: If an argument's range or static shape is wrong.

    Source: section 6.1 of "Attention Is All You Need"; ADR 0008, and ADR 0020 for
    what becomes of the cache.
    """
    cache = tf.nest.map_structure(tf.convert_to_tensor, cache)
    max_lengths = tf.cast(max_lengths, tf.int32)
    _check_sizes(max_decode_length, vocabulary_size, settings)
    _check_shapes(cache, max_lengths)
    sentences = sentences_of(max_lengths, max_decode_length, settings, options)
    beams = settings.beam_size
    if options is not None:
        # No wider than the widest: most ask for less than they might.
        beams = tf.reduce_max(tf.concat([sentences.beam_sizes, [1]], axis=0))
    step = SearchStep(step_fn, settings, beams, options is not None, vocabulary_size)
    slots = max_decode_length * beams
    if grow_fn is not None:
        slots = tf.constant(_BLOCK) * beams
        batch = tf.shape(max_lengths)[0]
        cache = grow_fn(cache, tf.zeros([batch, 0], tf.int32), slots)
    state = first_state(
        cache, sentences, beams=beams, slots=slots, max_decode_length=max_decode_length
    )
    # At first all hypotheses are the empty one, so one is enough.
    state = step(state)
    if grow_fn is None:
        finished = _run(step, state).finished
    else:
        finished = _run_growing(step, state, grow_fn)
    return BeamSearchResult(*[field[:, : settings.results] for field in finished])


def _run(step: SearchStep, state: State) -> State:
    """Returns the state when no sentence has a live hypothesis, or no more room."""

    def goes_on(state: State) -> Tensor:
        slots = tf.shape(state.past)[2]
        return tf.reduce_any(_is_alive(state)) & (state.first_slot < slots)

    def next_state(state: State) -> tuple[State]:
        return (tf.nest.map_structure(_keep_shape, state, step(state)),)

    (state,) = tf.while_loop(goes_on, next_state, (state,))
    return state


def _run_growing(step: SearchStep, state: State, grow_fn: GrowFn) -> BeamSearchResult:
    """Returns what is finished at the end, of sentences that leave when they are."""

    def goes_on(state: State, found: BeamSearchResult) -> Tensor:
        del found
        return tf.shape(state.live_log_probs)[0] > 0

    def block(state: State, found: BeamSearchResult) -> tuple[State, BeamSearchResult]:
        state = _run(step, state)
        found = BeamSearchResult(
            *[
                tf.tensor_scatter_nd_update(whole, state.sentences.rows[:, None], part)
                for whole, part in zip(found, state.finished, strict=True)
            ]
        )
        state = taken(state, tf.where(_is_alive(state))[:, 0])
        return _grown(state, grow_fn, step.beams), found

    loop_vars = (state, state.finished)
    _, found = tf.while_loop(
        goes_on, block, loop_vars, shape_invariants=_shapes_of(loop_vars, grow_fn, step)
    )
    return found


def _grown(state: State, grow_fn: GrowFn, beams: int | Tensor) -> State:
    """Returns the state with the slots that are in use, and new ones."""
    index, more = slots_in_use(state), tf.constant(_BLOCK) * beams
    state = state._replace(cache=grow_fn(state.cache, index, more))
    return with_slots(state, index, more)


def _shapes_of(loop_vars, grow_fn: GrowFn, step: SearchStep):
    """Returns the shapes of a growing loop: batch and slots do not stay as they are."""
    state, found = loop_vars
    shapes = tf.nest.map_structure(
        _what_stays, state, _grown(state, grow_fn, step.beams)
    )
    return shapes, tf.nest.map_structure(lambda part: part.shape, found)


def _what_stays(before: Tensor, after: Tensor) -> tf.TensorShape:
    """Returns the shape of both, unknown where it differs and in the first axis."""
    if before.shape.rank == 0:
        return before.shape
    sizes = zip(before.shape[1:], after.shape[1:], strict=True)
    return tf.TensorShape(
        [None, *(one if one == other else None for one, other in sizes)]
    )


def _is_alive(state: State) -> Tensor:
    """Returns [B] bool, whether a sentence has a live hypothesis."""
    return tf.reduce_any(state.live_log_probs > IMPOSSIBLE, axis=1)


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


def _check_shapes(cache: Cache, max_lengths: Tensor) -> None:
    """Raises ValueError where a tensor's static shape does not fit."""
    if max_lengths.shape.rank != 1:
        raise ValueError(
            "max_lengths must have shape [B]. "
            f"Received: max_lengths.shape={max_lengths.shape}"
        )
    for tensor in tf.nest.flatten(cache):
        shape = tensor.shape
        if shape.rank == 0 or not max_lengths.shape[:1].is_compatible_with(shape[:1]):
            raise ValueError(
                "Every tensor of the cache must have shape [B, ...], with as many rows "
                f"as max_lengths: {max_lengths.shape[0]}. Received: {shape}"
            )


def _keep_shape(before: Tensor, after: Tensor) -> Tensor:
    """Returns `after`, with what is known of the shape of `before`."""
    return tf.ensure_shape(after, before.shape)
