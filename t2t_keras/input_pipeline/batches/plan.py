"""Batch plan of an epoch: shuffling, and sharding among workers.

The plan is a pure function of seed and epoch. Any process can compute it again, so
training resumes at (epoch, position) exactly as if it had never stopped, and no
iterator state is saved (ADR 0011).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.input_pipeline.batches.bucketing import smallest_shapes
from t2t_keras.typing import BatchShape

ORDER_OF_CHUNKS = 1 << 62
"""Random stream of the order of an epoch's chunks. That of shuffle window w, from 1, is
w streams after it, far beyond those of the parts of a mixture."""


class PlannedBatch(NamedTuple):
    """A batch before it is made: its shape and the numbers of its pairs."""

    shape: BatchShape
    indices: np.ndarray
    """[n] int64 numbers of the pairs; n is at most `shape.rows` unless packed."""
    rows: np.ndarray | None = None
    """[n] int64, ascending: the row of each pair, where pairs share rows; None
    where each has its own, in order."""

    def row_numbers(self) -> np.ndarray:
        """Returns [n] int64, the row of each pair."""
        return np.arange(len(self.indices)) if self.rows is None else self.rows


class WorkerShard(NamedTuple):
    """One worker's shard of each batch: the rows of its replicas.

    All replicas have the same number of rows, in order; the shards of the last may end
    with padding. The replicas of a worker are next to each other.
    """

    worker: int = 0
    """Number of the process, in [0, num_workers)."""
    num_workers: int = 1
    num_replicas: int = 1
    """Replicas of all processes together; each process has the same number."""

    def select(self, planned: PlannedBatch) -> PlannedBatch:
        """Returns the worker's rows of a batch, as a batch; all if it is alone."""
        if self.num_workers == 1:
            return planned
        rows = -(-planned.shape.rows // self.num_replicas)
        rows *= self.num_replicas // self.num_workers
        first = self.worker * rows
        own = slice(*np.searchsorted(planned.row_numbers(), [first, first + rows]))
        return PlannedBatch(
            planned.shape._replace(rows=rows),
            planned.indices[own],
            None if planned.rows is None else planned.rows[own] - first,
        )


# The shard of a single process.
ALL_ROWS = WorkerShard()


def empty_batch(shape: BatchShape) -> PlannedBatch:
    """Returns a batch of a shape without pairs: all of it is padding."""
    none = np.zeros(0, np.int64)
    return PlannedBatch(shape, none, none)


def random_stream(
    seed: int, epoch: int, part: int = 0, pair: int | None = None
) -> np.random.Philox:
    """Returns the random number generator of an epoch's order, or of one of its pairs.

    The key of Philox is exactly seed and epoch. `permutation` sorts its raw numbers
    instead of calling `Generator.permutation`, so that an order never changes: NumPy
    guarantees the streams of bit generators across versions, but not of Generator.

    Args:
        seed: In [0, 2**64).
        epoch: In [0, 2**64), from 0.
        part: Part of a mixture, in [0, 2**64); 0 for the whole epoch; from
            `ORDER_OF_CHUNKS` on, shuffle windows. The streams of parts do not overlap:
            each begins 2**192 numbers after the one before.
        pair: Number of a pair within its part, in [0, 2**64), whose segmentation is
            drawn; None for the order. None of these streams overlap: pair and purpose
            are words of their own in Philox' counter, above the one that counts up.

    Raises:
        ValueError: If an argument is out of range.
    """
    values = {"seed": seed, "epoch": epoch, "part": part, "pair": pair or 0}
    for name, value in values.items():
        if not 0 <= value < 2**64:
            raise ValueError(f"{name} must be in [0, 2**64). Received: {value}")
    return np.random.Philox(
        key=np.array([seed, epoch], np.uint64),
        counter=np.array([0, pair or 0, pair is not None, part], np.uint64),
    )


def permutation(count: int, random: np.random.Philox) -> np.ndarray:
    """Returns the numbers below `count` in random order, [count] int64.

    The words that are sorted have a number in their low bits and random high bits. That
    takes a sixth of the time of sorting numbers by random keys: 36 million in three or
    four seconds of CPU time.

    Args:
        count: At most 2**32, so that half of a word stays random.
        random: Generator, from which `count` words are drawn.
    """
    low = np.uint64((1 << count.bit_length()) - 1)
    words = np.asarray(random.random_raw(count), np.uint64)
    words &= ~low
    words |= np.arange(count, dtype=np.uint64)
    words.sort()
    words &= low
    return words.view(np.int64)


def window_stream(seed: int, epoch: int, window: int) -> np.random.Philox:
    """Returns the random numbers of a shuffle window; 0 is that of a whole epoch."""
    return random_stream(seed, epoch, ORDER_OF_CHUNKS + window if window else 0)


def plan_epoch(
    lengths: np.ndarray,
    shapes: Sequence[BatchShape],
    seed: int,
    epoch: int,
    window: int = 0,
) -> list[PlannedBatch]:
    """Returns the batches of one epoch of training, one for each step, in their order.

    Pairs are shuffled, and each goes to the bucket of the shape that pads it least.
    Each bucket is cut into full batches; the pairs left over move up into the next
    shape that holds them, where they are padded a little more. So every pair comes
    exactly once, and at most one batch of the epoch has empty rows. Then the batches
    are shuffled. Their number is the same in every epoch.

    Args:
        lengths: [N, 2] int, source and target length with end of sentence.
        shapes: From small to large; the last holds every other.
        seed: In [0, 2**64).
        epoch: In [0, 2**64), from 0.
        window: Number of the shuffle window whose pairs these are, from 1; 0 for a
            whole epoch.

    Raises:
        ValueError: If `seed` or `epoch` is out of range, the last shape does not
            hold the others, or a pair is longer than it.
    """
    random = window_stream(seed, epoch, window)
    batches = _cut_into_batches(permutation(len(lengths), random), lengths, shapes)
    return [batches[number] for number in permutation(len(batches), random)]


def plan_evaluation(
    lengths: np.ndarray, shapes: Sequence[BatchShape]
) -> list[PlannedBatch]:
    """Returns the batches of an evaluation: every pair once, small shapes first.

    Arguments are as in `plan_epoch`.

    Raises:
        ValueError: As `plan_epoch`.
    """
    # By length within a bucket, so that the longest pairs move up.
    order = np.lexsort((lengths[:, 0], lengths.sum(axis=1)))
    return _cut_into_batches(order, lengths, shapes)


def _cut_into_batches(
    order: np.ndarray, lengths: np.ndarray, shapes: Sequence[BatchShape]
) -> list[PlannedBatch]:
    """Cuts pairs, in the given order, into full batches and at most one partial one."""
    if not all(shapes[-1].holds(shape) for shape in shapes):
        raise ValueError(
            "The last of the shapes must hold every other. "
            f"Received: {[tuple(shape) for shape in shapes]}"
        )
    bucket = smallest_shapes(lengths, shapes)[order]
    # Small unsigned numbers: NumPy sorts them by counting.
    by_bucket = order[np.argsort(bucket, kind="stable")]
    ends = np.cumsum(np.bincount(bucket, minlength=len(shapes)))
    pools = np.split(by_bucket, ends[:-1])
    from_below: list[list[np.ndarray]] = [[] for _ in shapes]
    batches, left_over = [], by_bucket[:0]
    for number, shape in enumerate(shapes):
        # Pairs from below come first, so that they move up by one bucket, not two.
        pool = np.concatenate([*from_below[number], pools[number]])
        whole = len(pool) - len(pool) % shape.rows
        batches += [
            PlannedBatch(shape, pool[start : start + shape.rows])
            for start in range(0, whole, shape.rows)
        ]
        left_over = pool[whole:]
        if len(left_over) and number + 1 < len(shapes):
            from_below[_next_larger(number, shapes)].append(left_over)
    if len(left_over):
        batches.append(_partial_batch(left_over, lengths, shapes))
    return batches


def _next_larger(number: int, shapes: Sequence[BatchShape]) -> int:
    """Returns the number of the smallest larger shape that holds a shape."""
    larger = range(number + 1, len(shapes))
    return next(other for other in larger if shapes[other].holds(shapes[number]))


def _partial_batch(
    indices: np.ndarray, lengths: np.ndarray, shapes: Sequence[BatchShape]
) -> PlannedBatch:
    """Returns a batch of the last pairs, of the smallest shape that holds them."""
    source, target = (int(longest) for longest in lengths[indices].max(axis=0))
    needed = BatchShape(len(indices), source, target)
    # The last shape always fits: fewer pairs are left than its rows.
    return PlannedBatch(
        next(s for s in shapes if s.rows >= needed.rows and s.holds(needed)), indices
    )
