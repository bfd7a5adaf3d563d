"""Random walk of hypotheses over a KV cache, with the past of each kept in NumPy."""

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from t2t_keras.model.kv_cache import KVCache

B, W, STEPS, H, K, U = 2, 3, 7, 4, 6, 5

GrowFn = Callable[[KVCache, tf.Tensor, tf.Tensor], KVCache]


def random_walk(
    rng: np.random.Generator, cache: KVCache, grow_fn: GrowFn | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, list]]:
    """Yields a cache, each hypothesis's visible slots, and its past in NumPy.

    Args:
        rng: Draws keys, values and parents.
        cache: Empty.
        grow_fn: Called when the slots are full. Default: there are enough.
    """
    slots = cache.keys.shape[2]
    visible = np.zeros([B, 1, slots], bool)
    pasts = [[[]] for _ in range(B)]  # by sentence and hypothesis: vectors [H, K + U]
    first = 0
    for _ in range(STEPS):
        if grow_fn is not None and first + W > visible.shape[2]:
            used = visible.any(axis=1)
            most = int(used.sum(axis=1).max())
            index = np.argsort(~used, axis=1, kind="stable")[:, :most]
            cache = grow_fn(cache, tf.constant(index), tf.constant(2 * W))
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


def assert_pasts_are_read(
    rng: np.random.Generator, cache: KVCache, grow_fn: GrowFn | None = None
) -> None:
    """Checks that each hypothesis of a random walk reads its own past."""
    steps = 0
    for contents, visible, pasts in random_walk(rng, cache, grow_fn):
        for b, sentence in enumerate(pasts):
            for w, past in enumerate(sentence):
                read = contents[b][:, visible[b, w]]
                np.testing.assert_array_equal(read, np.stack(past, axis=1))
        steps += 1
    assert steps == STEPS
