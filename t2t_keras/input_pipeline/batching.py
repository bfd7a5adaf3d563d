"""One planned batch as arrays: padded, shifted, weighted.

Shapes: B rows of a batch, L length.
"""

import numpy as np

from t2t_keras.input_pipeline import features
from t2t_keras.input_pipeline.batch_plan import PlannedBatch
from t2t_keras.input_pipeline.tokenized import Sentences, TokenizedCorpus
from t2t_keras.text.vocabulary import PAD_ID
from t2t_keras.typing import Batch


def make_batch(corpus: TokenizedCorpus, planned: PlannedBatch, rows: int) -> Batch:
    """Returns the features of a batch, always `rows` by `planned.bound`.

    The decoder is fed the target one step late: at every position it has seen
    all tokens before the one it is to predict. Its first input is PAD_ID, whose
    embedding is a zero vector. Rows that no pair fills are all padding and
    weigh nothing. Of two pairs (5 6 END | 7 END) and (8 END | 9 5 6 END) with
    a bound of 5 and 3 rows, END being 1, comes

        encoder_input_tokens   decoder_input_tokens   decoder_target_tokens
        5 6 1 0 0              0 7 1 0 0              7 1 0 0 0
        8 1 0 0 0              0 9 5 6 1              9 5 6 1 0
        0 0 0 0 0              0 0 0 0 0              0 0 0 0 0

        decoder_loss_weights
        1 1 0 0 0
        1 1 1 1 0
        0 0 0 0 0

    Args:
        corpus: Where the pairs are.
        planned: Which pairs, and how long a row is.
        rows: Rows of the bucket, at least as many as there are pairs.

    Returns:
        NumPy arrays by feature name, as `features.check_batch` wants them.

    Raises:
        ValueError: If there are more pairs than rows, or one is too long.
    """
    if len(planned.indices) > rows:
        raise ValueError(
            f"A batch of {rows} rows must have no more pairs than that. "
            f"Received: {len(planned.indices)}"
        )
    source_BL = _padded(corpus.source, planned, rows)
    target_BL = _padded(corpus.target, planned, rows)
    shifted_BL = np.full_like(target_BL, PAD_ID)
    shifted_BL[:, 1:] = target_BL[:, :-1]
    return {
        features.ENCODER_INPUT_TOKENS: source_BL,
        features.DECODER_INPUT_TOKENS: shifted_BL,
        features.DECODER_TARGET_TOKENS: target_BL,
        features.DECODER_LOSS_WEIGHTS: (target_BL != PAD_ID).astype(np.float32),
    }


def _padded(side: Sentences, planned: PlannedBatch, rows: int) -> np.ndarray:
    """Gathers sentences into the first rows of a matrix of padding."""
    tokens, lengths = side.gather(planned.indices)
    if lengths.size and lengths.max() > planned.bound:
        raise ValueError(
            f"Pairs of a batch must be no longer than its bound, {planned.bound}. "
            f"Received: {lengths.max()}"
        )
    is_token_BL = np.arange(planned.bound) < lengths[:, None]
    padded_BL = np.full([rows, planned.bound], PAD_ID, np.int32)
    padded_BL[: len(lengths)][is_token_BL] = tokens
    return padded_BL
