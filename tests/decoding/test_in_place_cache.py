"""Growing KV cache against NumPy; values of one run are not there in the next."""

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.in_place_cache import InPlaceKVCache, grow_cache, grow_state
from t2t_keras.model.kv_cache import KVCache
from tests.model.cache_walk import B, H, K, U, W, assert_pasts_are_read
from tests.model.small_model import ROWS, small_batch, small_model, small_weights
from tests.model.small_model import H as HEADS
from tests.model.small_model import K as D_K


def new_cache(slots: int) -> InPlaceKVCache:
    """Returns a growing cache of empty slots, as a search begins with it."""
    empty = KVCache.empty(B, H, 0, K, U, "float32")
    return grow_cache(empty, tf.zeros([B, 0], tf.int32), slots)


def test_each_hypothesis_reads_its_own_past():
    assert_pasts_are_read(np.random.default_rng(5), new_cache(3 * W), grow_cache)


def test_a_write_overwrites_the_cache_that_came_in():
    before = new_cache(W)
    ones = tf.ones([B, H, W, K]), tf.ones([B, H, W, U])
    after = before.write(*ones, before.rows(0, W))
    assert type(after) is InPlaceKVCache
    np.testing.assert_array_equal(before.keys, np.ones([B, H, W, K]))
    np.testing.assert_array_equal(before.values, np.ones([B, H, W, U]))


def test_a_cache_that_has_grown_is_a_copy():
    rng = np.random.default_rng(5)
    keys, values = (rng.normal(size=[B, H, W, size]) for size in (K, U))
    before = KVCache(tf.constant(keys), tf.constant(values))
    kept = tf.constant([[0, 1, 2]] * B)
    after = grow_cache(before, kept, 0)
    zeros = tf.zeros([B, H, W, K], "double"), tf.zeros([B, H, W, U], "double")
    after.write(*zeros, after.rows(0, W))
    np.testing.assert_array_equal(before.keys, keys)
    np.testing.assert_array_equal(before.values, values)


def test_only_the_caches_of_self_attention_grow():
    model = small_model(small_weights())
    state = model.prefill(tf.constant(small_batch()["encoder_input_tokens"]), 3)
    grown = grow_state(state, tf.zeros([ROWS, 2], tf.int32), 5)
    for cache in grown.self_attention:
        assert tuple(cache.keys.shape) == (ROWS, HEADS, 7, D_K)
    assert grown.cross_attention is state.cross_attention
    assert grown.source_mask is state.source_mask


def test_what_was_written_is_not_there_in_the_next_run():
    """It would be there if the graph reused the zeros that the cache starts from."""
    rng = np.random.default_rng(5)
    keys = tf.constant(rng.normal(size=[B, H, W, K]), tf.float32)
    values = tf.constant(rng.normal(size=[B, H, W, U]), tf.float32)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.int32)])
    def run(first_slot):
        cache = InPlaceKVCache.empty(B, H, 3 * W, K, U, "float32")
        return cache.write(keys, values, cache.rows(first_slot, W))

    for first in (0, W, 2 * W):
        for part, newest in zip(run(first), (keys, values), strict=True):
            expected = np.zeros(part.shape)
            expected[:, :, first : first + W] = newest
            np.testing.assert_array_equal(part, expected)
