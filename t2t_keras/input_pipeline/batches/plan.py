"""Batch plan of an epoch: a pure function of seed and epoch.

The batches of an epoch are a list that anyone can compute again, so training
resumes at (epoch, position) exactly as if it had never stopped, and no
iterator need be saved (ADR 0011).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.input_pipeline.batches.bucketing import smallest_shapes
from t2t_keras.typing import BatchShape


class PlannedBatch(NamedTuple):
    """One batch before it is made: its shape, and who is in it."""

    shape: BatchShape
    indices: np.ndarray
    """[n] int64 numbers of the pairs. With a row each, 1 <= n <= rows."""
    rows: np.ndarray | None = None
    """[n] int64, ascending: the row of each pair, where pairs share rows; None
    where each has its own, in order."""

    def row_numbers(self) -> np.ndarray:
        """Returns [n] int64, the row of each pair."""
        return np.arange(len(self.indices)) if self.rows is None else self.rows


class WorkerShare(NamedTuple):
    """The rows that one of several processes has: those of its own replicas.

    Replicas have equal shares of a batch's rows, in order; where rows run out, the
    last shares end with padding. A worker's replicas follow one another.
    """

    worker: int = 0
    """Which process, in [0, num_workers)."""
    num_workers: int = 1
    num_replicas: int = 1
    """Of all processes, as many in each."""

    def of(self, planned: PlannedBatch) -> PlannedBatch:
        """Returns the worker's rows of a batch, as a batch; alone it has them all."""
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


# Of one process alone.
ALL_ROWS = WorkerShare()


def padding_only(shape: BatchShape) -> PlannedBatch:
    """Returns a batch of a shape that nobody is in."""
    nobody = np.zeros(0, np.int64)
    return PlannedBatch(shape, nobody, nobody)


def random_stream(seed: int, epoch: int, part: int = 0) -> np.random.Philox:
    """Returns the random numbers of an epoch's order.

    The key of Philox is exactly these two words. Sorting its raw numbers, and not
    `Generator.permutation`, keeps an order for good: NumPy promises the streams of
    bit generators across versions, but not those of Generator.

    Args:
        seed: In [0, 2**64).
        epoch: In [0, 2**64), from 0.
        part: Of which part of a mixture, in [0, 2**64); 0 for all of it together. Their
            numbers never meet: each part begins 2**192 numbers after the one before.

    Raises:
        ValueError: If an argument is out of range.
    """
    for name, value in (("seed", seed), ("epoch", epoch), ("part", part)):
        if not 0 <= value < 2**64:
            raise ValueError(f"{name} must be in [0, 2**64). Received: {value}")
    return np.random.Philox(
        key=np.array([seed, epoch], np.uint64),
        counter=np.array([0, 0, 0, part], np.uint64),
    )


def shuffled(count: int, random: np.random.Philox) -> np.ndarray:
    """Returns the numbers below `count` in random order, [count] int64.

    Each number is the low end of a word whose high end is random; what sorts are
    the words. That takes a sixth of the time of sorting numbers by random keys:
    36 million in about ten seconds.

    Args:
        count: At most 2**32, so that half of a word stays random.
        random: Where `count` words are taken from.
    """
    low = np.uint64((1 << count.bit_length()) - 1)
    words = np.asarray(random.random_raw(count), np.uint64)
    words &= ~low
    words |= np.arange(count, dtype=np.uint64)
    words.sort()
    words &= low
    return words.view(np.int64)


def plan_epoch(
    lengths: np.ndarray, shapes: Sequence[BatchShape], seed: int, epoch: int
) -> list[PlannedBatch]:
    """Returns the batches of one epoch of training, in their order.

    Pairs are shuffled, and each falls into the bucket of the shape that pads it
    least. Each bucket is cut into full batches; the pairs left over move up into
    the next shape that holds them, where they are padded a little more. So every
    pair comes exactly once, and at most one batch of the epoch has empty rows. The
    batches, too, are then shuffled. How many there are is the same in every epoch.

    Args:
        lengths: [N, 2] int, source and target length with end of sentence.
        shapes: From small to large, the last of which holds every other.
        seed: In [0, 2**64).
        epoch: In [0, 2**64), from 0.

    Returns:
        One `PlannedBatch` for each step.

    Raises:
        ValueError: If `seed` or `epoch` is out of range, the last shape does not
            hold the others, or a pair is longer than it.
    """
    random = random_stream(seed, epoch)
    batches = _cut_into_batches(shuffled(len(lengths), random), lengths, shapes)
    return [batches[number] for number in shuffled(len(batches), random)]


def plan_evaluation(
    lengths: np.ndarray, shapes: Sequence[BatchShape]
) -> list[PlannedBatch]:
    """Returns batches of every pair once, small shapes first.

    Args:
        lengths: See `plan_epoch`.
        shapes: See `plan_epoch`.

    Raises:
        ValueError: As `plan_epoch`.
    """
    # Within a bucket by length, so that what moves up is the longest.
    order = np.lexsort((lengths[:, 0], lengths.sum(axis=1)))
    return _cut_into_batches(order, lengths, shapes)


def _cut_into_batches(
    order: np.ndarray, lengths: np.ndarray, shapes: Sequence[BatchShape]
) -> list[PlannedBatch]:
    """Cuts pairs, taken in the given order, into full batches and one rest."""
    if not all(shapes[-1].holds(shape) for shape in shapes):
        raise ValueError(
            "The last of the shapes must hold every other. "
            f"Received: {[tuple(shape) for shape in shapes]}"
        )
    bucket = smallest_shapes(lengths, shapes)[order]
    # Small unsigned numbers: NumPy sorts them by counting.
    by_bucket = order[np.argsort(bucket, kind="stable")]
    ends = np.cumsum(np.bincount(bucket, minlength=len(shapes)))
    # What comes from below goes first, so that it rises one bucket, not two.
    pools = [[members] for members in np.split(by_bucket, ends[:-1])]
    risen: list[list[np.ndarray]] = [[] for _ in shapes]
    batches, left_over = [], by_bucket[:0]
    for number, shape in enumerate(shapes):
        pool = np.concatenate([*risen[number], *pools[number]])
        whole = len(pool) - len(pool) % shape.rows
        batches += [
            PlannedBatch(shape, pool[start : start + shape.rows])
            for start in range(0, whole, shape.rows)
        ]
        left_over = pool[whole:]
        if len(left_over) and number + 1 < len(shapes):
            risen[_next_above(number, shapes)].append(left_over)
    if len(left_over):
        batches.append(_rest(left_over, lengths, shapes))
    return batches


def _next_above(number: int, shapes: Sequence[BatchShape]) -> int:
    """Returns the smallest of the larger shapes that holds a shape."""
    larger = range(number + 1, len(shapes))
    return next(above for above in larger if shapes[above].holds(shapes[number]))


def _rest(
    indices: np.ndarray, lengths: np.ndarray, shapes: Sequence[BatchShape]
) -> PlannedBatch:
    """Returns what is left at the very end, at the smallest shape that holds it."""
    source, target = (int(longest) for longest in lengths[indices].max(axis=0))
    needed = BatchShape(len(indices), source, target)
    # The last shape always fits: fewer are left than its rows.
    return PlannedBatch(
        next(s for s in shapes if s.rows >= needed.rows and s.holds(needed)), indices
    )
