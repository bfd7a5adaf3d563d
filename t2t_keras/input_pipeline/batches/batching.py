"""Batches of gathered pairs: padded or packed, shifted, weighted, in TensorFlow.

Gathering alone is NumPy, for ids may be mapped from disk; `planned_dataset.py` does it
for many batches at a time.

Shapes: B rows of a batch, S source length, T target length, L either, n pairs.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus
from t2t_keras.text.padding import pad_rows, shift_right
from t2t_keras.text.vocabulary import PAD_ID
from t2t_keras.typing import (
    DECODER_INPUT_TOKENS,
    DECODER_LOSS_WEIGHTS,
    DECODER_POSITIONS,
    DECODER_SEGMENT_IDS,
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
    ENCODER_POSITIONS,
    ENCODER_SEGMENT_IDS,
    Batch,
    Tensor,
)


class GatheredBatch(NamedTuple):
    """The pairs of a planned batch as ids, before they are padded."""

    shape: Tensor
    """[3] int64, the fields of a `BatchShape`."""
    rows: Tensor
    """[n] int64, the row of each pair."""
    source: tf.RaggedTensor
    """[n, (S)] int32."""
    target: tf.RaggedTensor
    """[n, (T)] int32."""


def make_batch(gathered: GatheredBatch) -> Batch:
    """Returns the features of a batch with a row for each pair.

    The decoder is fed the target one step late: at every position it has seen
    all tokens before the one it is to predict. Its first input is PAD_ID, whose
    embedding is a zero vector. Rows that no pair fills are all padding and
    weigh nothing. Of two pairs (5 6 END | 7 END) and (8 END | 9 5 6 END) with
    bounds of 4 and 5, and 3 rows, END being 1, comes

        encoder_input_tokens   decoder_input_tokens   decoder_target_tokens
        5 6 1 0                0 7 1 0 0              7 1 0 0 0
        8 1 0 0                0 9 5 6 1              9 5 6 1 0
        0 0 0 0                0 0 0 0 0              0 0 0 0 0

        decoder_loss_weights
        1 1 0 0 0
        1 1 1 1 0
        0 0 0 0 0

    Args:
        gathered: The pairs, in eager mode or in a traced function.

    Returns:
        Tensors by feature name, as `features.check_batch` wants them.
    """
    shape, _, source, target = gathered
    return padded_batch(pad_rows(source, shape[:2]), pad_rows(target, shape[::2]))


def padded_batch(source_BS: Tensor, target_BT: Tensor) -> Batch:
    """Returns the features of a batch with a row for each pair, from its padded ids."""
    return {
        ENCODER_INPUT_TOKENS: source_BS,
        DECODER_INPUT_TOKENS: shift_right(target_BT),
        DECODER_TARGET_TOKENS: target_BT,
        DECODER_LOSS_WEIGHTS: tf.cast(target_BT != PAD_ID, tf.float32),
    }


def make_packed_batch(gathered: GatheredBatch) -> Batch:
    """Returns the features of a batch with several pairs in a row.

    Pairs of a row are numbered from 1, the same on both sides; padding has 0.
    Positions begin anew with each pair, and so does the decoder's input: its first
    token is PAD_ID, not the end of the pair before. Of the pairs of `make_batch`,
    both in the first of two rows with bounds of 6 and 7, comes

        encoder_input_tokens   encoder_segment_ids    encoder_positions
        5 6 1 8 1 0            1 1 1 2 2 0            0 1 2 0 1 0
        0 0 0 0 0 0            0 0 0 0 0 0            0 0 0 0 0 0

        decoder_target_tokens  decoder_segment_ids    decoder_positions
        7 1 9 5 6 1 0          1 1 2 2 2 2 0          0 1 0 1 2 3 0
        0 0 0 0 0 0 0          0 0 0 0 0 0 0          0 0 0 0 0 0 0

        decoder_input_tokens   decoder_loss_weights
        0 7 0 9 5 6 0          1 1 1 1 1 1 0
        0 0 0 0 0 0 0          0 0 0 0 0 0 0

    Args:
        gathered: The pairs, rows in ascending order.

    Returns:
        Tensors by feature name, as `features.check_batch` wants them.
    """
    shape, rows_n, source, target = gathered
    source_BS, source_segments_BS, source_positions_BS = _pack(
        source, rows_n, shape[:2]
    )
    target_BT, target_segments_BT, target_positions_BT = _pack(
        target, rows_n, shape[::2]
    )
    is_first_BT = target_positions_BT == 0
    return {
        ENCODER_INPUT_TOKENS: source_BS,
        DECODER_INPUT_TOKENS: tf.where(is_first_BT, PAD_ID, shift_right(target_BT)),
        DECODER_TARGET_TOKENS: target_BT,
        DECODER_LOSS_WEIGHTS: tf.cast(target_segments_BT > 0, tf.float32),
        ENCODER_SEGMENT_IDS: source_segments_BS,
        ENCODER_POSITIONS: source_positions_BS,
        DECODER_SEGMENT_IDS: target_segments_BT,
        DECODER_POSITIONS: target_positions_BT,
    }


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


def gather_batch(corpus: TokenizedCorpus, planned: PlannedBatch) -> GatheredBatch:
    """Returns the pairs of one planned batch, checked to fit its shape."""
    check_fits(corpus.lengths[planned.indices], planned)
    (source, source_lengths), (target, target_lengths) = (
        side.gather(planned.indices) for side in (corpus.source, corpus.target)
    )
    return GatheredBatch(
        tf.constant(planned.shape, tf.int64),
        tf.constant(planned.row_numbers()),
        tf.RaggedTensor.from_row_lengths(source.astype(np.int32), source_lengths),
        tf.RaggedTensor.from_row_lengths(target.astype(np.int32), target_lengths),
    )


def check_fits(lengths: np.ndarray, planned: PlannedBatch) -> None:
    """Refuses a planned batch whose pairs do not fit its shape: padding would cut them.

    Args:
        lengths: [n, 2], of its pairs.
        planned: The batch.

    Raises:
        ValueError: If a pair has no row, or a row is too short for its pairs.
    """
    row_n = planned.row_numbers()
    if row_n.max(initial=-1) >= planned.shape.rows:
        raise ValueError(
            f"Pairs of a batch must be in rows below {planned.shape.rows}. "
            f"Received: row {row_n.max()}, {len(row_n)} pairs"
        )
    bounds = (planned.shape.source_bound, planned.shape.target_bound)
    for bound, length_n in zip(bounds, lengths.T, strict=True):
        longest = int(np.bincount(row_n, length_n).max(initial=0))
        if longest > bound:
            raise ValueError(
                f"Pairs of a row must be no longer, together, than its bound, {bound}. "
                f"Received: {longest}"
            )
