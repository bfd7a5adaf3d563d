"""One planned batch as arrays: padded or packed, shifted, weighted.

Shapes: B rows of a batch, S source length, T target length, n pairs, k tokens.
"""

import numpy as np

from t2t_keras.input_pipeline.batches import features
from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.input_pipeline.records.tokenized import Sentences, TokenizedCorpus
from t2t_keras.text.vocabulary import PAD_ID
from t2t_keras.typing import Batch


def make_batch(corpus: TokenizedCorpus, planned: PlannedBatch) -> Batch:
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
        corpus: Where the pairs are.
        planned: Which pairs, and the shape.

    Returns:
        NumPy arrays by feature name, as `features.check_batch` wants them.

    Raises:
        ValueError: If there are more pairs than rows, or one is too long.
    """
    rows, source_bound, target_bound = planned.shape
    if len(planned.indices) > rows:
        raise ValueError(
            f"A batch of {rows} rows must have no more pairs than that. "
            f"Received: {len(planned.indices)}"
        )
    source_BS = _padded(corpus.source, planned.indices, rows, source_bound)
    target_BT = _padded(corpus.target, planned.indices, rows, target_bound)
    shifted_BT = np.full_like(target_BT, PAD_ID)
    shifted_BT[:, 1:] = target_BT[:, :-1]
    return {
        features.ENCODER_INPUT_TOKENS: source_BS,
        features.DECODER_INPUT_TOKENS: shifted_BT,
        features.DECODER_TARGET_TOKENS: target_BT,
        features.DECODER_LOSS_WEIGHTS: (target_BT != PAD_ID).astype(np.float32),
    }


def make_packed_batch(corpus: TokenizedCorpus, planned: PlannedBatch) -> Batch:
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
        corpus: Where the pairs are.
        planned: Which pairs in which rows, and the shape.

    Returns:
        NumPy arrays by feature name, as `features.check_batch` wants them.

    Raises:
        ValueError: If no rows are planned, one is too short for its pairs, or
            there are too few of them.
    """
    rows, source_bound, target_bound = planned.shape
    if planned.rows is None or (planned.rows >= rows).any():
        raise ValueError(
            f"A packed batch must have a row below {rows} for each pair. "
            f"Received: {planned.rows}"
        )
    source = _packed(corpus.source, planned.indices, planned.rows, rows, source_bound)
    target = _packed(corpus.target, planned.indices, planned.rows, rows, target_bound)
    target_BT, segment_BT, position_BT = target
    shifted_BT = np.full_like(target_BT, PAD_ID)
    shifted_BT[:, 1:] = target_BT[:, :-1]
    shifted_BT[position_BT == 0] = PAD_ID
    return {
        features.ENCODER_INPUT_TOKENS: source[0],
        features.DECODER_INPUT_TOKENS: shifted_BT,
        features.DECODER_TARGET_TOKENS: target_BT,
        features.DECODER_LOSS_WEIGHTS: (segment_BT > 0).astype(np.float32),
        features.ENCODER_SEGMENT_IDS: source[1],
        features.ENCODER_POSITIONS: source[2],
        features.DECODER_SEGMENT_IDS: segment_BT,
        features.DECODER_POSITIONS: position_BT,
    }


def _counted(lengths: np.ndarray) -> np.ndarray:
    """Returns 0, 1, 2, ... anew for each length, end to end."""
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) - np.repeat(before, lengths)


def _padded(side: Sentences, indices: np.ndarray, rows: int, bound: int) -> np.ndarray:
    """Gathers sentences into the first rows of a matrix of padding."""
    tokens, lengths = side.gather(indices)
    if lengths.max(initial=0) > bound:
        raise ValueError(
            f"Pairs of a batch must be no longer than its bound, {bound}. "
            f"Received: {lengths.max()}"
        )
    padded_BL = np.full([rows, bound], PAD_ID, np.int32)
    padded_BL[np.repeat(np.arange(len(lengths)), lengths), _counted(lengths)] = tokens
    return padded_BL


def _packed(
    side: Sentences,
    indices: np.ndarray,
    rows_n: np.ndarray,
    rows: int,
    bound: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the ids of sentences end to end in their rows, segments, positions."""
    tokens, lengths = side.gather(indices)
    before = np.cumsum(lengths) - lengths
    first = np.searchsorted(rows_n, rows_n)  # of the pairs in the same row
    start = before - before[first]
    if (start + lengths).max(initial=0) > bound:
        raise ValueError(
            f"Pairs of a row must be no longer, together, than its bound, {bound}. "
            f"Received: {(start + lengths).max()}"
        )
    arrays = np.zeros([3, rows, bound], np.int32)
    positions = _counted(lengths)
    column = np.repeat(start, lengths) + positions
    segments = np.repeat(np.arange(len(rows_n)) - first + 1, lengths)
    row = np.repeat(rows_n, lengths)
    for array_BL, values in zip(arrays, (tokens, segments, positions), strict=True):
        array_BL[row, column] = values
    return arrays[0], arrays[1], arrays[2]
