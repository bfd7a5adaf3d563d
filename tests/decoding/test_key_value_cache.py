"""A cache against NumPy that keeps every hypothesis' past by itself."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding import key_value_cache

B, W, STEPS, H, K = 2, 3, 7, 4, 6


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def random_walk(rng, in_place):
    """Yields what each hypothesis has been through, by the cache and by hand."""
    cache = key_value_cache.empty(B, H, 3 * W, K, "float32")
    reads = np.zeros([B, 1, 3 * W], bool)
    pasts = [[[]] for _ in range(B)]  # by sentence and hypothesis: vectors [H, K]
    first = 0
    for _ in range(STEPS):
        if first + W > reads.shape[2]:
            used = reads.any(axis=1)
            most = int(used.sum(axis=1).max())
            index = np.argsort(~used, axis=1, kind="stable")[:, :most]
            cache = key_value_cache.grown(cache, tf.constant(index), tf.constant(2 * W))
            kept = [reads[b][:, index[b]] for b in range(B)]
            reads = np.pad(np.stack(kept), [(0, 0), (0, 0), (0, 2 * W)])
            first = most
        alive = reads.shape[1]
        reads[:, np.arange(alive), first + np.arange(alive)] = True
        newest = rng.normal(size=[B, alive, H, K]).astype(np.float32)
        rows = key_value_cache.rows_written(
            tf.constant(first), tf.shape(cache), tf.constant(alive)
        )
        cache = key_value_cache.written(
            cache, tf.constant(newest), rows, in_place=in_place
        )
        pasts = [
            [[*past, newest[b, w]] for w, past in enumerate(pasts[b])] for b in range(B)
        ]
        yield cache.numpy(), reads, pasts
        parents = rng.integers(alive, size=[B, W])
        reads = np.stack([reads[b, parents[b]] for b in range(B)])
        pasts = [[pasts[b][p] for p in parents[b]] for b in range(B)]
        first += W


@pytest.mark.parametrize("in_place", [False, True])
def test_each_hypothesis_reads_its_own_past(rng, in_place):
    steps = 0
    for cache, reads, pasts in random_walk(rng, in_place):
        for b, sentence in enumerate(pasts):
            for w, past in enumerate(sentence):
                read = cache[b][:, reads[b, w]]
                np.testing.assert_array_equal(read, np.stack(past, axis=1))
        steps += 1
    assert steps == STEPS


def test_what_was_written_is_not_there_in_the_next_run(rng):
    """As it would be if the graph kept the zeros that it starts from."""
    newest = tf.constant(rng.normal(size=[B, W, H, K]), tf.float32)

    @tf.function
    def run():
        cache = key_value_cache.empty(B, H, W, K, "float32")
        rows = key_value_cache.rows_written(0, tf.shape(cache), W)
        before = tf.reduce_sum(tf.abs(cache))
        with tf.control_dependencies([before]):
            after = key_value_cache.written(cache, newest, rows, in_place=True)
        return before, after

    for _ in range(3):
        before, after = run()
        assert before == 0.0
        np.testing.assert_array_equal(after, np.swapaxes(newest, 1, 2))
