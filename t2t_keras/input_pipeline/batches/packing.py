"""Several sentence pairs in one row: a single shape, and hardly any padding.

Why these rows and this way to fill them: ADR 0016.

Shapes: n pairs of a block, R rows.
"""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from t2t_keras.input_pipeline.batches.bucketing import batch_shape
from t2t_keras.input_pipeline.batches.plan import (
    PlannedBatch,
    random_stream,
    shuffled,
)
from t2t_keras.typing import BatchShape

# Pairs that a row holds on average, if the budget allows: of fewer, some do not fit
# together, and more make attention costly.
_PAIRS_PER_ROW = 8
# From so many rows on, their number is rounded down to three binary digits: 8 devices
# share it evenly, and from 64 rows on 16 do.
_EVEN_FROM = 32
# Pairs are packed in blocks of about so many batches, so that neither the memory nor
# the time to the first batch grows with what packing needs for the whole corpus.
_BATCHES_PER_BLOCK = 64
# In how many groups of like size rows and pairs are matched by their balance. Of more,
# many a row is left with a gap as large as the last pair, but not in proportion.
_GROUPS = 3


def packed_shape(lengths: np.ndarray, tokens_per_batch: int) -> BatchShape:
    """Returns the one shape of packed batches.

    A row holds eight pairs of mean length, and any one pair. Its two sides are in
    the proportion of the corpus' tokens, so that they fill up together. Of a large
    batch a row holds up to a quarter more, so that devices can share the rows evenly,
    however many devices there are: the shape must not depend on that.

    Args:
        lengths: [N, 2] int, source and target length with end of sentence.
        tokens_per_batch: Most positions of one side of a batch.

    Raises:
        ValueError: If there are no lengths.
        UserError: If `tokens_per_batch` does not hold a row.

    >>> packed_shape(np.array([[3, 4], [5, 4], [4, 7]]), tokens_per_batch=100)
    BatchShape(rows=2, source_bound=32, target_bound=40)
    """
    if not len(lengths):
        raise ValueError("There must be a pair. Received: 0 pairs")
    means = [Fraction(int(tokens), len(lengths)) for tokens in lengths.sum(axis=0)]
    longest = [int(length) for length in lengths.max(axis=0)]
    # Fractions, not floats: the shape must be the same on every machine.
    needed = max(length / mean for length, mean in zip(longest, means, strict=True))
    affordable = tokens_per_batch / max(means)
    pairs = max(needed, min(Fraction(_PAIRS_PER_ROW), affordable))
    source_bound, target_bound = (math.ceil(pairs * mean) for mean in means)
    shape = batch_shape((source_bound, target_bound), tokens_per_batch)
    rows = _even(shape.rows)
    if rows == shape.rows:
        return shape
    pairs = tokens_per_batch // rows / max(means)
    return BatchShape(rows, *(math.ceil(pairs * mean) for mean in means))


def _even(rows: int) -> int:
    """Returns the number of rows, or a little less, that many devices can share."""
    return rows - rows % (1 << rows.bit_length() - 3) if rows >= _EVEN_FROM else rows


def plan_packed_epoch(
    lengths: np.ndarray, shape: BatchShape, seed: int, epoch: int
) -> Iterator[PlannedBatch]:
    """Yields the batches of one epoch of training, in their order.

    Pairs are shuffled and packed block by block. What does not fit the rows of one
    block goes to the next, and the last block gets as many rows as it needs.
    So every pair comes exactly once, and at most the last batch has empty rows. How
    many batches there are may differ from epoch to epoch.

    Args:
        lengths: [N, 2] int, source and target length with end of sentence.
        shape: That holds every pair.
        seed: In [0, 2**64).
        epoch: In [0, 2**64), from 0.

    Raises:
        ValueError: If `seed` or `epoch` is out of range, or a pair is longer than
            a row.
    """
    random = random_stream(seed, epoch)
    order = shuffled(len(lengths), random)
    if not len(order):
        return
    carried = order[:0]
    pairs_per_block = _pairs_per_block(lengths, shape)
    for start in range(0, len(order), pairs_per_block):
        end = start + pairs_per_block
        pairs = np.concatenate([carried, order[start:end]])
        if end < len(order):
            rows_n, num_rows = _full_rows(lengths[pairs], shape, len(carried))
        else:
            rows_n, num_rows = _all_rows(lengths[pairs], shape)
        placed_n = rows_n >= 0
        # Rows that were filled alike must not stand together.
        place_R = shuffled(num_rows, random)
        yield from _batches(pairs[placed_n], place_R[rows_n[placed_n]], shape)
        carried = pairs[~placed_n]


def pack_rows(
    lengths: np.ndarray, shape: BatchShape, num_rows: int, num_carried: int = 0
) -> np.ndarray:
    """Returns which row each pair goes to, or -1 where there was no room.

    In each round every row gets one pair: the emptiest row the longest that is
    left, so rows fill up evenly and the shortest pairs come last, when there are
    gaps to fill. Among rows and pairs of like size, one with more room for source
    than for target gets one with more source than target. The rounds are a few
    sorts, half a microsecond a pair, where first-fit takes Python through every pair.

    Args:
        lengths: [n, 2] int.
        shape: That holds every pair; its number of rows does not matter here.
        num_rows: How many rows to fill.
        num_carried: So many pairs, the first ones, have been left over before.
            They count half as long again, so that short ones do not wait for ever.

    Returns:
        [n] int64, below `num_rows`.

    Raises:
        ValueError: If a pair is longer than a row.
    """
    bounds = np.array([shape.source_bound, shape.target_bound])
    if (lengths > bounds).any():
        raise ValueError(
            f"Pairs must be no longer than a row, {tuple(map(int, bounds))}. "
            f"Received: {tuple(map(int, lengths.max(axis=0)))}"
        )
    # Both sides in one unit, of which a row has room for the same number.
    sizes = lengths.astype(np.int64) * bounds[::-1]
    room = np.full([num_rows, 2], bounds.prod(), np.int64)
    rows_n = np.full(len(lengths), -1, np.int64)
    urgency_n = sizes.sum(axis=1)
    urgency_n[:num_carried] += urgency_n[:num_carried] // 2
    order = np.argsort(-urgency_n, kind="stable")
    for start in range(0, len(order), max(1, num_rows)):
        pairs = order[start : start + num_rows]
        emptiest = np.argsort(-room.sum(axis=1), kind="stable")[: len(pairs)]
        group = np.arange(len(pairs)) // (num_rows // _GROUPS + 1)
        pairs = pairs[np.lexsort((_balance(sizes[pairs]), group))]
        rows = emptiest[np.lexsort((_balance(room[emptiest]), group))]
        fits = (sizes[pairs] <= room[rows]).all(axis=1)
        rows_n[pairs[fits]] = rows[fits]
        room[rows[fits]] -= sizes[pairs[fits]]
    return rows_n


def _balance(sides: np.ndarray) -> np.ndarray:
    return sides[:, 0] - sides[:, 1]


def _pairs_per_block(lengths: np.ndarray, shape: BatchShape) -> int:
    source_tokens, target_tokens = map(int, lengths.sum(axis=0))
    rows = _BATCHES_PER_BLOCK * shape.rows
    return min(
        rows * shape.source_bound * len(lengths) // source_tokens,
        rows * shape.target_bound * len(lengths) // target_tokens,
    )


def _rows_needed(lengths: np.ndarray, shape: BatchShape) -> int:
    """Returns how many rows the pairs would fill without a gap, rounded up."""
    source_tokens, target_tokens = map(int, lengths.sum(axis=0))
    return max(
        -(-source_tokens // shape.source_bound), -(-target_tokens // shape.target_bound)
    )


def _full_rows(
    lengths: np.ndarray, shape: BatchShape, num_carried: int
) -> tuple[np.ndarray, int]:
    """Fills whole batches; returns each pair's row, or -1, and how many rows."""
    needed = _rows_needed(lengths, shape)
    num_rows = needed - needed % shape.rows
    return pack_rows(lengths, shape, num_rows, num_carried), num_rows


def _all_rows(lengths: np.ndarray, shape: BatchShape) -> tuple[np.ndarray, int]:
    """Returns a row for every pair, and how many rows there are."""
    rows_n = np.full(len(lengths), -1, np.int64)
    num_rows = 0
    while len(left := np.flatnonzero(rows_n < 0)):
        more = _rows_needed(lengths[left], shape)
        # At least one finds an empty row, so this ends.
        found = pack_rows(lengths[left], shape, more)
        rows_n[left] = np.where(found < 0, -1, found + num_rows)
        num_rows += more
    return rows_n, num_rows


def _batches(
    pairs: np.ndarray, rows_n: np.ndarray, shape: BatchShape
) -> Iterator[PlannedBatch]:
    """Yields batches of so many rows each, in the order of the rows."""
    by_row = np.argsort(rows_n, kind="stable")
    pairs, rows_n = pairs[by_row], rows_n[by_row]
    if not len(pairs):
        return
    firsts = np.arange(0, int(rows_n[-1]) + 1, shape.rows)
    starts = np.searchsorted(rows_n, firsts)
    for first, start, end in zip(
        firsts, starts, [*starts[1:], len(pairs)], strict=True
    ):
        yield PlannedBatch(shape, pairs[start:end], rows_n[start:end] - first)
