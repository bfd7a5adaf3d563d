"""Beam search with a growing KV cache, and without the sentences that are done.

An optimization: the results are those of a search with constant shapes. A cache has
slots for a few positions only. When they are full, finished sentences leave the batch,
slots that no live hypothesis can see are dropped, and new ones are appended
(ADR 0020).

Shapes: B sentences, W live hypotheses of each, X slots of a cache, Y slots kept.
"""

from typing import Protocol

import tensorflow as tf

from t2t_keras.decoding.search_state import (
    IMPOSSIBLE,
    BeamSearchResult,
    Cache,
    SearchState,
    is_live,
)
from t2t_keras.decoding.search_step import SearchStep
from t2t_keras.typing import Tensor

# Number of positions that a cache grows by. Growing copies the cache; with a larger
# number, steps read more slots that are empty or no longer needed, and finished
# sentences stay longer.
GROWTH = 8


class GrowFn(Protocol):
    """Function that grows a cache."""

    def __call__(self, cache: Cache, kept_slots: Tensor, new_slots: Tensor, /) -> Cache:
        """Returns the cache with some of its slots, in their order, and new ones.

        Args:
            cache: A nest of tensors, [B, ...] each.
            kept_slots: [B, Y] int32, the slots of each sentence to keep.
            new_slots: int32 scalar, number of slots to append.
        """
        ...


def run_growing_search(
    step: SearchStep, state: SearchState, grow_fn: GrowFn
) -> BeamSearchResult:
    """Returns the finished hypotheses of all sentences, [B, W, ...], best first."""

    def has_sentences(state: SearchState, results: BeamSearchResult) -> Tensor:
        del results
        return tf.shape(state.live_log_probs)[0] > 0

    def run_until_full(
        state: SearchState, results: BeamSearchResult
    ) -> tuple[SearchState, BeamSearchResult]:
        state = step.run(state)
        results = BeamSearchResult(
            *[
                tf.tensor_scatter_nd_update(whole, state.sentences.rows[:, None], part)
                for whole, part in zip(results, state.finished, strict=True)
            ]
        )
        state = gather_sentences(state, tf.where(is_live(state))[:, 0])
        return _grow(state, find_live_slots(state), grow_fn, step.beams), results

    loop_vars = (state, state.finished)
    shapes = _loop_shapes(loop_vars, grow_fn, step)
    _, results = tf.while_loop(
        has_sentences, run_until_full, loop_vars, shape_invariants=shapes
    )
    return results


def gather_sentences(state: SearchState, index: Tensor) -> SearchState:
    """Returns the state of some of B sentences, whose numbers are an int32 vector."""
    return tf.nest.map_structure(
        lambda part: tf.gather(part, index) if part.shape.rank != 0 else part, state
    )


def find_live_slots(state: SearchState) -> Tensor:
    """Returns [B, Y] int32, the slots that a live hypothesis can see, in their order.

    Y is the largest number that any sentence needs. Other sentences keep additional
    slots, which none of their hypotheses sees.
    """
    is_alive_BW = state.live_log_probs > IMPOSSIBLE
    is_used_BX = tf.reduce_any(state.visible_slots & is_alive_BW[..., None], axis=1)
    counts_B = tf.reduce_sum(tf.cast(is_used_BX, tf.int32), axis=1)
    most = tf.reduce_max(tf.concat([counts_B, [0]], axis=0))
    in_order_BX = tf.argsort(tf.cast(~is_used_BX, tf.int32), axis=1, stable=True)
    return in_order_BX[:, :most]


def grow_visible_slots(
    state: SearchState, kept_slots: Tensor, new_slots: int | Tensor
) -> SearchState:
    """Returns the state for a cache that has grown; see `GrowFn` for the arguments."""
    batch, beams = tf.unstack(tf.shape(state.visible_slots)[:2])
    num_kept = tf.shape(kept_slots)[1]
    index_BWY = tf.broadcast_to(kept_slots[:, None], [batch, beams, num_kept])
    visible_BWY = tf.gather(state.visible_slots, index_BWY, batch_dims=2)
    visible_BWX = tf.pad(visible_BWY, [[0, 0], [0, 0], [0, new_slots]])
    return state._replace(visible_slots=visible_BWX, first_slot=num_kept)


def _grow(
    state: SearchState, kept_slots: Tensor, grow_fn: GrowFn, beams: int | Tensor
) -> SearchState:
    """Returns the state with these slots [B, Y] and new ones."""
    new_slots = tf.constant(GROWTH) * beams
    state = state._replace(cache=grow_fn(state.cache, kept_slots, new_slots))
    return grow_visible_slots(state, kept_slots, new_slots)


def _loop_shapes(loop_vars, grow_fn: GrowFn, step: SearchStep):
    """Returns the shapes of the loop, unknown where sentences leave or slots grow."""
    state, results = loop_vars
    batch = tf.shape(state.live_log_probs)[0]
    # Axes that differ are those of the slots.
    grown = (
        _grow(state, tf.zeros([batch, kept], tf.int32), grow_fn, step.beams)
        for kept in (0, 1)
    )
    shapes = tf.nest.map_structure(_common_shape, *grown)
    # The empty hypothesis is one, those after it are as many as the beam is wide.
    of_beams = ("visible_slots", "last_tokens", "live_tokens", "live_log_probs")
    shapes = shapes._replace(
        **{name: _any_beams(getattr(shapes, name)) for name in of_beams},
        progress=tf.nest.map_structure(_any_beams, shapes.progress),
    )
    return shapes, tf.nest.map_structure(lambda part: part.shape, results)


def _any_beams(shape: tf.TensorShape) -> tf.TensorShape:
    return tf.TensorShape([None, None, *shape[2:]])


def _common_shape(one: Tensor, other: Tensor) -> tf.TensorShape:
    """Returns the shape of both, unknown where it differs and in the first axis."""
    if one.shape.rank == 0:
        return one.shape
    sizes = zip(one.shape[1:], other.shape[1:], strict=True)
    return tf.TensorShape(
        [None, *(size if size == another else None for size, another in sizes)]
    )
