"""KV cache against NumPy, which stores the past of each hypothesis separately."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.model.kv_cache import KVCache

B, W, STEPS, H, K, U = 2, 3, 7, 4, 6, 5


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def random_walk(rng, in_place):
    """Yields a cache, each hypothesis's visible slots, and its past in NumPy."""
    cache = KVCache.empty(B, H, 3 * W, K, U, "float32")
    visible = np.zeros([B, 1, 3 * W], bool)
    pasts = [[[]] for _ in range(B)]  # by sentence and hypothesis: vectors [H, K + U]
    first = 0
    for _ in range(STEPS):
        if first + W > visible.shape[2]:
            used = visible.any(axis=1)
            most = int(used.sum(axis=1).max())
            index = np.argsort(~used, axis=1, kind="stable")[:, :most]
            cache = cache.grow(tf.constant(index), tf.constant(2 * W))
            used_slots = [visible[b][:, index[b]] for b in range(B)]
            visible = np.pad(np.stack(used_slots), [(0, 0), (0, 0), (0, 2 * W)])
            first = most
        num_live = visible.shape[1]
        visible[:, np.arange(num_live), first + np.arange(num_live)] = True
        newest = rng.normal(size=[B, H, num_live, K + U]).astype(np.float32)
        cache = cache.write(
            tf.constant(newest[..., :K]),
            tf.constant(newest[..., K:]),
            cache.rows(tf.constant(first), num_live),
            in_place=in_place,
        )
        pasts = [
            [[*past, newest[b, :, w]] for w, past in enumerate(pasts[b])]
            for b in range(B)
        ]
        yield np.concatenate([part.numpy() for part in cache], -1), visible, pasts
        parents = rng.integers(num_live, size=[B, W])
        visible = np.stack([visible[b, parents[b]] for b in range(B)])
        pasts = [[pasts[b][p] for p in parents[b]] for b in range(B)]
        first += W


@pytest.mark.parametrize("in_place", [False, True])
def test_each_hypothesis_reads_its_own_past(rng, in_place):
    steps = 0
    for cache, visible, pasts in random_walk(rng, in_place):
        for b, sentence in enumerate(pasts):
            for w, past in enumerate(sentence):
                read = cache[b][:, visible[b, w]]
                np.testing.assert_array_equal(read, np.stack(past, axis=1))
        steps += 1
    assert steps == STEPS


def test_a_write_leaves_the_cache_that_came_in_as_it_was(rng):
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


def test_what_was_written_is_not_there_in_the_next_run(rng):
    """It would be there if the graph reused the zeros that the cache starts from."""
    keys = tf.constant(rng.normal(size=[B, H, W, K]), tf.float32)
    values = tf.constant(rng.normal(size=[B, H, W, U]), tf.float32)

    @tf.function(autograph=False)
    def run():
        cache = KVCache.empty(B, H, W, K, U, "float32")
        before = [tf.reduce_sum(tf.abs(part)) for part in cache]
        with tf.control_dependencies(before):
            after = cache.write(keys, values, cache.rows(0, W), in_place=True)
        return before, after

    for _ in range(3):
        before, after = run()
        assert [float(total) for total in before] == [0.0, 0.0]
        np.testing.assert_array_equal(after.keys, keys)
        np.testing.assert_array_equal(after.values, values)
