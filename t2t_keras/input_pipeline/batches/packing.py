"""Sequence packing: several sentence pairs in a row, one shape, hardly any padding.

ADR 0016 has the reasons for these rows and this way to fill them.

Shapes: n pairs of a block, R rows of a block, B rows of a batch, L length of a side.
"""

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import tensorflow as tf

from t2t_keras.input_pipeline.batches.batching import GatheredBatch, alignment_feature
from t2t_keras.input_pipeline.batches.bucketing import largest_shape
from t2t_keras.input_pipeline.batches.plan import (
    PlannedBatch,
    permutation,
    window_stream,
)
from t2t_keras.input_pipeline.records.length_counts import LengthCounts
from t2t_keras.text.padding import pad_rows, shift_right
from t2t_keras.text.vocabulary import PAD_ID
from t2t_keras.typing import (
    ALIGNMENT,
    DECODER_INPUT_TOKENS,
    DECODER_LOSS_WEIGHTS,
    DECODER_POSITIONS,
    DECODER_SEGMENT_IDS,
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
    ENCODER_POSITIONS,
    ENCODER_SEGMENT_IDS,
    Batch,
    BatchShape,
    Tensor,
)

# Mean pairs of a row, if the budget allows: with fewer, gaps remain that no pair fits,
# and with more attention is costly.
_PAIRS_PER_ROW = 8
# From this number of rows on, it is rounded down to three binary digits: it divides
# evenly among 8 devices, and from 64 rows on among 16.
_EVEN_FROM = 32
# Pairs are packed in blocks of about this many batches, so that neither the memory nor
# the time to the first batch grows with the corpus.
_BATCHES_PER_BLOCK = 64
# Groups of similar size within which rows and pairs are matched by their balance. With
# more groups, many rows end with a gap of the size of the last pair, but not of its
# proportion of source to target.
_GROUPS = 3


@dataclasses.dataclass(frozen=True, eq=False)
class PackedBatching:
    """Sequence packing: several pairs in a row, in batches of one shape.

    Attributes:
        lengths: [N, 2] int, source and target length of every pair.
        shape: Holds every pair.
    """

    lengths: np.ndarray
    shape: BatchShape

    packed = True
    num_windows = 1

    @classmethod
    def from_lengths(
        cls, lengths: np.ndarray, *, tokens_per_batch: int
    ) -> "PackedBatching":
        """Returns a strategy with a shape from the lengths; see `packed_shape`."""
        return cls(lengths, packed_shape(lengths, tokens_per_batch))

    @property
    def shapes(self) -> tuple[BatchShape, ...]:
        """The one shape."""
        return (self.shape,)

    def plan(self, seed: int, epoch: int, window: int = 0) -> Iterator[PlannedBatch]:
        """Yields the batches of an epoch; see `plan_packed_epoch`."""
        yield from plan_packed_epoch(self.lengths, self.shape, seed, epoch, window)

    def make(self, gathered: GatheredBatch) -> Batch:
        """Returns the features of a batch; see `make_packed_batch`."""
        return make_packed_batch(gathered)


def packed_shape(
    lengths: np.ndarray | LengthCounts, tokens_per_batch: int
) -> BatchShape:
    """Returns the one shape of packed batches.

    A row holds eight pairs of mean length, and any one pair. Its two sides are in
    the proportion of the corpus' tokens, so that they fill up together. In a large
    batch a row holds up to a quarter more, so that the rows divide evenly among
    devices; the shape must not depend on the number of devices.

    Args:
        lengths: [N, 2] int, source and target length with end of sentence; or the
            number of pairs of each.
        tokens_per_batch: Maximum positions of one side of a batch.

    Raises:
        ValueError: If there are no pairs.
        UserError: If `tokens_per_batch` does not hold a row.

    >>> packed_shape(np.array([[3, 4], [5, 4], [4, 7]]), tokens_per_batch=100)
    BatchShape(rows=2, source_bound=32, target_bound=40)
    """
    counts = lengths
    if not isinstance(counts, LengthCounts):
        counts = LengthCounts.from_lengths(counts)
    if not len(counts.pairs):
        raise ValueError("There must be a pair. Received: 0 pairs")
    num_pairs = int(counts.pairs.sum())
    sides = counts.source, counts.target
    means = [Fraction(int((side * counts.pairs).sum()), num_pairs) for side in sides]
    longest = [int(side.max()) for side in sides]
    # Fractions, not floats: the shape must be the same on every machine.
    needed = max(length / mean for length, mean in zip(longest, means, strict=True))
    affordable = tokens_per_batch / max(means)
    pairs = max(needed, min(Fraction(_PAIRS_PER_ROW), affordable))
    source_bound, target_bound = (math.ceil(pairs * mean) for mean in means)
    shape = largest_shape((source_bound, target_bound), tokens_per_batch)
    rows = _round_down(shape.rows)
    if rows == shape.rows:
        return shape
    pairs = tokens_per_batch // rows / max(means)
    return BatchShape(rows, *(math.ceil(pairs * mean) for mean in means))


def _round_down(rows: int) -> int:
    """Returns the number of rows, or a little less, divisible among many devices."""
    return rows - rows % (1 << rows.bit_length() - 3) if rows >= _EVEN_FROM else rows


def plan_packed_epoch(
    lengths: np.ndarray, shape: BatchShape, seed: int, epoch: int, window: int = 0
) -> Iterator[PlannedBatch]:
    """Yields the batches of one epoch of training, in their order.

    Pairs are shuffled and packed block by block. Pairs that do not fit the rows of one
    block are carried over to the next, and the last block gets all rows that it needs.
    So every pair comes exactly once, and at most the last batch has empty rows. The
    number of batches may differ from epoch to epoch.

    Args:
        lengths: [N, 2] int, source and target length with end of sentence.
        shape: Shape of a batch; a row holds every pair.
        seed: In [0, 2**64).
        epoch: In [0, 2**64), from 0.
        window: See `plan_epoch`.

    Raises:
        ValueError: If `seed` or `epoch` is out of range, or a pair is longer than
            a row.
    """
    random = window_stream(seed, epoch, window)
    order = permutation(len(lengths), random)
    if not len(order):
        return
    carried = order[:0]
    pairs_per_block = _pairs_per_block(lengths, shape)
    for start in range(0, len(order), pairs_per_block):
        end = start + pairs_per_block
        pairs = np.concatenate([carried, order[start:end]])
        if end < len(order):
            rows_n, num_rows = _pack_full_batches(lengths[pairs], shape, len(carried))
        else:
            rows_n, num_rows = _pack_all(lengths[pairs], shape)
        placed_n = rows_n >= 0
        # Similar rows must not be next to each other.
        place_R = permutation(num_rows, random)
        yield from _cut_into_batches(pairs[placed_n], place_R[rows_n[placed_n]], shape)
        carried = pairs[~placed_n]


def pack_rows(
    lengths: np.ndarray, shape: BatchShape, num_rows: int, num_carried: int = 0
) -> np.ndarray:
    """Returns the row of each pair, [n] int64, or -1 where there was no room.

    In each round every row gets one pair: the emptiest row the longest pair that is
    left, so rows fill up evenly and the shortest pairs come last, when there are
    gaps to fill. Among rows and pairs of similar size, a row with more room for source
    than for target gets a pair with more source than target. The rounds are a few
    sorts, half a microsecond per pair; first-fit would be a Python loop over all pairs.

    Args:
        lengths: [n, 2] int.
        shape: Its bounds hold every pair; its number of rows does not matter here.
        num_rows: Number of rows to fill.
        num_carried: Number of pairs, the first ones, that were carried over before.
            They count half as long again, so that short ones do not wait forever.

    Raises:
        ValueError: If a pair is longer than a row.
    """
    bounds = np.array([shape.source_bound, shape.target_bound])
    if (lengths > bounds).any():
        raise ValueError(
            f"Pairs must be no longer than a row, {tuple(map(int, bounds))}. "
            f"Received: {tuple(map(int, lengths.max(axis=0)))}"
        )
    # In units in which both sides of a row have the same room.
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
    """Returns the number of rows that the pairs fill without a gap, rounded up."""
    source_tokens, target_tokens = map(int, lengths.sum(axis=0))
    return max(
        -(-source_tokens // shape.source_bound), -(-target_tokens // shape.target_bound)
    )


def _pack_full_batches(
    lengths: np.ndarray, shape: BatchShape, num_carried: int
) -> tuple[np.ndarray, int]:
    """Fills whole batches; returns each pair's row, or -1, and the number of rows."""
    needed = _rows_needed(lengths, shape)
    num_rows = needed - needed % shape.rows
    return pack_rows(lengths, shape, num_rows, num_carried), num_rows


def _pack_all(lengths: np.ndarray, shape: BatchShape) -> tuple[np.ndarray, int]:
    """Returns a row for every pair, and the number of rows."""
    rows_n = np.full(len(lengths), -1, np.int64)
    num_rows = 0
    while len(left := np.flatnonzero(rows_n < 0)):
        new_rows = _rows_needed(lengths[left], shape)
        # At least one pair gets an empty row, so this ends.
        rows = pack_rows(lengths[left], shape, new_rows)
        rows_n[left] = np.where(rows < 0, -1, rows + num_rows)
        num_rows += new_rows
    return rows_n, num_rows


def _cut_into_batches(
    pairs: np.ndarray, rows_n: np.ndarray, shape: BatchShape
) -> Iterator[PlannedBatch]:
    """Yields batches of `shape.rows` rows each, in the order of the rows."""
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


def make_packed_batch(gathered: GatheredBatch) -> Batch:
    """Returns a batch, which passes `check_batch`, with several pairs in each row.

    Pairs of a row are numbered from 1, the same on both sides; padding has 0.
    Positions restart with each pair, and so does the decoder's input: its first
    token is PAD_ID, not the end of the pair before. The pairs of
    `batching.make_batch`, both in the first of two rows with bounds of 6 and 7, become

        encoder_input_tokens   encoder_segment_ids    encoder_positions
        5 6 1 8 1 0            1 1 1 2 2 0            0 1 2 0 1 0
        0 0 0 0 0 0            0 0 0 0 0 0            0 0 0 0 0 0

        decoder_target_tokens  decoder_segment_ids    decoder_positions
        7 1 9 5 6 1 0          1 1 2 2 2 2 0          0 1 0 1 2 3 0
        0 0 0 0 0 0 0          0 0 0 0 0 0 0          0 0 0 0 0 0 0

        decoder_input_tokens   decoder_loss_weights
        0 7 0 9 5 6 0          1 1 1 1 1 1 0
        0 0 0 0 0 0 0          0 0 0 0 0 0 0
    """
    shape, rows_n, source, target, _ = gathered
    source_BS, source_segments_BS, source_positions_BS = _pack(
        source, rows_n, shape[:2]
    )
    target_BT, target_segments_BT, target_positions_BT = _pack(
        target, rows_n, shape[::2]
    )
    is_first_BT = target_positions_BT == 0
    batch = {
        ENCODER_INPUT_TOKENS: source_BS,
        DECODER_INPUT_TOKENS: tf.where(is_first_BT, PAD_ID, shift_right(target_BT)),
        DECODER_TARGET_TOKENS: target_BT,
        DECODER_LOSS_WEIGHTS: tf.cast(target_segments_BT > 0, tf.float32),
        ENCODER_SEGMENT_IDS: source_segments_BS,
        ENCODER_POSITIONS: source_positions_BS,
        DECODER_SEGMENT_IDS: target_segments_BT,
        DECODER_POSITIONS: target_positions_BT,
    }
    if isinstance(gathered.links, tf.RaggedTensor):
        starts = [_starts(side, rows_n) for side in (source, target)]
        batch[ALIGNMENT] = alignment_feature(gathered, tf.stack(starts, axis=1))
    return batch


def _starts(pairs: tf.RaggedTensor, rows_n: Tensor) -> Tensor:
    """Returns the position of each pair in its row, [n] int64."""
    lengths_n = pairs.row_lengths()
    before_n = tf.cumsum(lengths_n, exclusive=True)
    row_lengths = tf.math.segment_sum(lengths_n, rows_n)
    return before_n - tf.gather(tf.cumsum(row_lengths, exclusive=True), rows_n)


def _pack(
    pairs: tf.RaggedTensor, rows_n: Tensor, shape: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ids, segments and positions [B, L] of pairs end to end in their rows."""
    lengths_n = pairs.row_lengths()
    row_lengths_B = tf.math.unsorted_segment_sum(lengths_n, rows_n, shape[0])
    rows_B = tf.RaggedTensor.from_row_lengths(
        pairs.flat_values, row_lengths_B, validate=False
    )
    # From 1 in each pair, since 0 is padding.
    ordinals = tf.ragged.range(1, lengths_n + 1, dtype=tf.int64).flat_values
    ordinals_BL = pad_rows(rows_B.with_flat_values(tf.cast(ordinals, tf.int32)), shape)
    pairs_so_far_BL = tf.cumsum(tf.cast(ordinals_BL == 1, tf.int32), axis=1)
    return (
        pad_rows(rows_B, shape),
        tf.where(ordinals_BL > 0, pairs_so_far_BL, 0),
        tf.maximum(ordinals_BL - 1, 0),
    )
