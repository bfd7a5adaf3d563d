"""A cache against NumPy that keeps every hypothesis' past by itself."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding import key_value_cache

B, W, R, H, K = 2, 3, 5, 4, 6


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def random_walk(rng, in_place):
    """Yields what each hypothesis has been through, by the cache and by hand."""
    cache = key_value_cache.empty(B, H, 2 * W, K, "float32")
    ancestors = np.zeros([B, 1, 2], np.int32)
    pasts = [[[]] for _ in range(B)]  # by sentence and hypothesis: vectors [H, K]
    for position in range(R):
        if position == 2:
            cache = key_value_cache.grown(cache, tf.constant(R * W))
            ancestors = np.pad(ancestors, [(0, 0), (0, 0), (0, R - 2)])
        alive = ancestors.shape[1]
        ancestors[:, :, position] = np.arange(alive)
        newest = rng.normal(size=[B, alive, H, K]).astype(np.float32)
        places = key_value_cache.places(
            tf.constant(ancestors), tf.constant(position), H, W
        )
        cache = key_value_cache.written(
            cache, tf.constant(newest), places.rows, in_place=in_place
        )
        pasts = [
            [[*past, newest[b, w]] for w, past in enumerate(pasts[b])] for b in range(B)
        ]
        yield cache.numpy(), places.mask.numpy(), pasts
        parents = rng.integers(alive, size=[B, W])
        ancestors = np.stack([ancestors[b, parents[b]] for b in range(B)])
        pasts = [[pasts[b][p] for p in parents[b]] for b in range(B)]


@pytest.mark.parametrize("in_place", [False, True])
def test_each_hypothesis_reads_its_own_past(rng, in_place):
    steps = 0
    for cache, mask, pasts in random_walk(rng, in_place):
        for b, sentence in enumerate(pasts):
            assert mask.shape[1] == len(sentence)
            for w, past in enumerate(sentence):
                read = cache[b][:, mask[b, w]]
                np.testing.assert_array_equal(read, np.stack(past, axis=1))
        steps += 1
    assert steps == R


def test_what_was_written_is_not_there_in_the_next_run(rng):
    """As it would be if the graph kept the zeros that it starts from."""
    newest = tf.constant(rng.normal(size=[B, W, H, K]), tf.float32)

    @tf.function
    def run():
        cache = key_value_cache.empty(B, H, W, K, "float32")
        places = key_value_cache.places(tf.zeros([B, W, 1], tf.int32), 0, H, W)
        before = tf.reduce_sum(tf.abs(cache))
        with tf.control_dependencies([before]):
            after = key_value_cache.written(cache, newest, places.rows, in_place=True)
        return before, after

    for _ in range(3):
        before, after = run()
        assert before == 0.0
        np.testing.assert_array_equal(after, np.swapaxes(newest, 1, 2))
