"""KV cache against NumPy, which stores the past of each hypothesis separately.

tests/decoding/test_in_place_cache.py tests the cache that grows.
"""

import numpy as np
import tensorflow as tf

from t2t_keras.model.kv_cache import KVCache
from tests.model.cache_walk import STEPS, B, H, K, U, W, assert_pasts_are_read


def test_each_hypothesis_reads_its_own_past():
    cache = KVCache.empty(B, H, STEPS * W, K, U, "float32")
    assert_pasts_are_read(np.random.default_rng(5), cache)


def test_a_write_leaves_the_cache_that_came_in_as_it_was():
    rng = np.random.default_rng(5)
    before = KVCache(
        tf.constant(rng.normal(size=[B, H, W, K])),
        tf.constant(rng.normal(size=[B, H, W, U])),
    )
    copies = [part.numpy().copy() for part in before]
    keys, values = tf.zeros([B, H, 1, K], "double"), before.values[:, :, :1]
    after = before.write(keys, values, before.rows(1, 1))
    for part, copy in zip(before, copies, strict=True):
        np.testing.assert_array_equal(part, copy)
    assert not after.keys[:, :, 1].numpy().any()
    np.testing.assert_array_equal(after.values[:, :, 1], copies[1][:, :, 0])
