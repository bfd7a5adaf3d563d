"""Shards of a batch, for replicas and then for micro-batches (gradient accumulation).

A process has the rows of its own replicas, which are all rows if it is the only one.

Shapes: B rows of a batch, L length.
"""

from collections.abc import Collection

import numpy as np

from t2t_keras.typing import (
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
    Batch,
    BatchShape,
)

ROW_NUMBERS = "row_numbers"
"""[B] int32 beside the features: each row's number in the global batch."""


def share_of(batch: Batch, replica: int, num_local: int) -> Batch:
    """Returns the rows of a replica: equal shares, in order, padded at the end.

    Rows of padding weigh nothing, so a batch means the same however many replicas
    divide it.

    Args:
        batch: Features [B, L] as NumPy arrays, all with the same B: the rows of this
            process. Of several processes each has as many.
        replica: Which replica of all processes, counted from 0.
        num_local: Replicas of each process.

    Returns:
        Features [ceil(B / num_local), L], and `ROW_NUMBERS`.
    """
    total = len(next(iter(batch.values())))
    rows = -(-total // num_local)
    first = replica % num_local * rows
    share = {
        name: padded_rows(np.asarray(feature)[first : first + rows], rows)
        for name, feature in batch.items()
    }
    numbers = np.arange(replica * rows, (replica + 1) * rows, dtype=np.int32)
    return {**share, ROW_NUMBERS: numbers}


def micro_batch_count(rows: int, length: int, max_tokens: int | None) -> int:
    """Returns in how many parts a replica's share is computed.

    Parts are equal, so the last may end with rows of padding. Of up to twice as many
    parts as there must be, the number is taken that leaves the fewest.

    Args:
        rows: Of the share.
        length: Of its longer side, padding counted.
        max_tokens: Most positions of one side at a time; None for no limit.

    >>> micro_batch_count(rows=10, length=50, max_tokens=200)  # not 3 parts of 4 rows
    5
    """
    if max_tokens is None:
        return 1
    fewest = -(-rows // max(1, min(rows, max_tokens // length)))
    return min(range(fewest, 2 * fewest), key=lambda count: count * -(-rows // count))


def computed_rows(
    rows: int, length: int, *, num_replicas: int, max_tokens: int | None
) -> int:
    """Returns how many rows are computed of a batch: its own and those added.

    Args:
        rows: Of the global batch.
        length: Of its longer side, padding counted.
        num_replicas: Of all processes.
        max_tokens: See `micro_batch_count`.

    >>> computed_rows(rows=10, length=50, num_replicas=4, max_tokens=None)
    12
    """
    share = -(-rows // num_replicas)
    count = micro_batch_count(share, length, max_tokens)
    return num_replicas * count * -(-share // count)


def micro_batches(share: Batch, count: int) -> Batch:
    """Returns a share cut into equal parts, features [count, ceil(B / count), L].

    The last part is filled up with rows of padding, which bear the numbers of rows
    that there are not.
    """
    rows = -(-len(share[ROW_NUMBERS]) // count)
    return {
        name: padded_rows(feature, count * rows).reshape(
            count, rows, *feature.shape[1:]
        )
        for name, feature in share.items()
    }


def padded_rows(feature: np.ndarray, rows: int) -> np.ndarray:
    """Returns a feature with rows of 0 behind it, `rows` in all."""
    missing = rows - len(feature)
    return np.pad(feature, [(0, missing)] + [(0, 0)] * (feature.ndim - 1))


def shape_of(batch: Batch) -> BatchShape:
    """Returns the shape of a batch of arrays."""
    rows, source_length = batch[ENCODER_INPUT_TOKENS].shape
    return BatchShape(rows, source_length, batch[DECODER_TARGET_TOKENS].shape[1])


def check_compiled(
    batch: Batch, compiled: Collection[BatchShape] | None, use: str
) -> None:
    """Refuses a batch that a program would have to be compiled for.

    Args:
        batch: Features [B, L].
        compiled: The shapes that there are programs for; None where none is needed.
        use: What the batch is for, as "to train on".

    Raises:
        ValueError: If its shape is another.
    """
    shape = shape_of(batch)
    if compiled is not None and shape not in compiled:
        shapes = sorted(map(tuple, compiled))
        raise ValueError(
            f"A batch {use} must be of one of the shapes {shapes}, which were "
            f"compiled before training. Received: {tuple(shape)}"
        )
