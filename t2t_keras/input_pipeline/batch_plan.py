"""Which sentence pairs make up which batch: a pure function of seed and epoch.

The batches of an epoch are a list that anyone can compute again, so training
resumes at (epoch, position) exactly as if it had never stopped, and no
iterator need be saved (ADR 0011).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.input_pipeline.bucketing import bucket_rows


class PlannedBatch(NamedTuple):
    """One batch before it is made: how long its rows are, and who is in it."""

    bound: int
    """Length that both sides are padded to."""
    indices: np.ndarray
    """[n] int64 numbers of the pairs, 1 <= n <= the rows of a full batch."""


def plan_epoch(
    lengths: np.ndarray,
    bounds: Sequence[int],
    tokens_per_batch: int,
    seed: int,
    epoch: int,
) -> list[PlannedBatch]:
    """Returns the batches of one epoch of training, in their order.

    Pairs are shuffled and fall into buckets by their longer side. Each bucket
    is cut into full batches; the pairs left over move up into the next bucket,
    where they are padded a little more. So every pair comes exactly once, and
    at most one batch of the epoch has empty rows. The batches, too, are then
    shuffled. How many there are is the same in every epoch.

    Args:
        lengths: [N, 2] int, source and target length with end of sentence.
        bounds: Padded lengths, ascending; no pair is longer than the last.
        tokens_per_batch: See `bucket_rows`.
        seed: In [0, 2**64).
        epoch: In [0, 2**64), from 0.

    Returns:
        One `PlannedBatch` for each step.

    Raises:
        ValueError: If `seed` or `epoch` is out of range, or a pair is longer
            than the largest bound.
        UserError: If `tokens_per_batch` is too small for the largest bound.
    """
    for name, value in (("seed", seed), ("epoch", epoch)):
        if not 0 <= value < 2**64:
            raise ValueError(f"{name} must be in [0, 2**64). Received: {value}")
    # The key of Philox is exactly these two words. Sorting its raw numbers, and
    # not `Generator.permutation`, keeps the order for good: NumPy promises the
    # streams of bit generators across versions, but not those of Generator.
    random = np.random.Philox(key=np.array([seed, epoch], np.uint64))
    order = np.argsort(random.random_raw(len(lengths)), kind="stable")
    rows = bucket_rows(bounds, tokens_per_batch)
    batches = _cut_into_batches(order, np.max(lengths, axis=1), bounds, rows)
    batch_order = np.argsort(random.random_raw(len(batches)), kind="stable")
    return [batches[number] for number in batch_order]


def plan_evaluation(
    lengths: np.ndarray,
    bounds: Sequence[int],
    tokens_per_batch: int,
) -> list[PlannedBatch]:
    """Returns batches of every pair once, from the shortest to the longest.

    Args:
        lengths: See `plan_epoch`.
        bounds: See `plan_epoch`.
        tokens_per_batch: See `bucket_rows`.

    Raises:
        ValueError: If a pair is longer than the largest bound.
        UserError: If `tokens_per_batch` is too small for the largest bound.
    """
    longer = np.max(lengths, axis=1)
    rows = bucket_rows(bounds, tokens_per_batch)
    # Pairs of one longer side are sorted by the sum, for company of like size.
    order = np.lexsort((np.sum(lengths, axis=1), longer))
    return _cut_into_batches(order, longer, bounds, rows)


def _cut_into_batches(
    order: np.ndarray, longer: np.ndarray, bounds: Sequence[int], rows: Sequence[int]
) -> list[PlannedBatch]:
    """Cuts pairs, taken in the given order, into full batches and one rest."""
    bucket = np.searchsorted(np.asarray(bounds), longer[order], side="left")
    if len(order) and bucket.max() == len(bounds):
        raise ValueError(
            f"Pairs must be no longer than the largest bound, {bounds[-1]}. "
            f"Received: a pair of length {longer.max()}"
        )
    by_bucket = order[np.argsort(bucket, kind="stable")]
    ends = np.cumsum(np.bincount(bucket, minlength=len(bounds)))
    batches, left_over = [], by_bucket[:0]
    for bound, size, members in zip(
        bounds, rows, np.split(by_bucket, ends[:-1]), strict=True
    ):
        # What comes from below goes first, so that it rises one bucket, not two.
        pool = np.concatenate([left_over, members])
        whole = len(pool) - len(pool) % size
        batches += [
            PlannedBatch(bound, pool[start : start + size])
            for start in range(0, whole, size)
        ]
        left_over = pool[whole:]
    if len(left_over):
        batches.append(_rest(left_over, longer, bounds, rows))
    return batches


def _rest(
    indices: np.ndarray, longer: np.ndarray, bounds: Sequence[int], rows: Sequence[int]
) -> PlannedBatch:
    """Returns what is left at the very end, at the smallest shape that holds it."""
    longest = longer[indices].max()
    fitting = [
        bound
        for bound, size in zip(bounds, rows, strict=True)
        if bound >= longest and size >= len(indices)
    ]
    # The last bound always fits: fewer are left than its rows.
    return PlannedBatch(fitting[0], indices)
