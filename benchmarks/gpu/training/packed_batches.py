"""Packed training batches from ids and from the rows that pairs are in, by NumPy alone.

The batches are those of `t2t_keras.train`, bit for bit: its plan decides which pairs
are in which row of which batch, and this module only lays them out. An arrangement
takes about two bytes per pair and epoch, a hundredth of the features.

Shapes: P pairs in the order of rows, N of one side's tokens, B rows of all batches.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def arrange(planned: Iterable[Any], rows: int) -> dict[str, np.ndarray]:
    """Returns the arrangement of batches, to store.

    Args:
        planned: Each batch as a `PlannedBatch`: numbers of pairs, and their rows.
        rows: Rows of a batch.

    Returns:
        "pairs" [P] unsigned numbers of the pairs, batch by batch and row by row; and
        "row_steps" [P] unsigned, how many rows each is behind the pair before it, rows
        being counted through all batches.
    """
    pairs, rows_P = [], []
    for number, batch in enumerate(planned):
        pairs.append(batch.indices)
        rows_P.append(batch.row_numbers() + number * rows)
    arrays = {
        "pairs": np.concatenate(pairs),
        "row_steps": np.diff(np.concatenate(rows_P), prepend=0),
    }
    return {
        name: array.astype(np.min_scalar_type(array.max()))
        for name, array in arrays.items()
    }


class PackedBatches:
    """The batches of a training.

    Args:
        pairs: "source" and "target", ids of all pairs end to end; "source_lengths" and
            "target_lengths".
        arrangement: From `arrange`.
        shape: Rows of a batch, and tokens per row of sources and of targets.
    """

    def __init__(
        self,
        pairs: Mapping[str, np.ndarray],
        arrangement: Mapping[str, np.ndarray],
        shape: tuple[int, int, int],
    ):
        self._pairs_P = arrangement["pairs"].astype(np.int64)
        self._rows_P = np.cumsum(arrangement["row_steps"], dtype=np.int64)
        self._rows = shape[0]
        self._sides = [
            (prefix, pairs[side], np.cumsum([0, *pairs[f"{side}_lengths"]]), bound)
            for prefix, side, bound in (
                ("encoder", "source", shape[1]),
                ("decoder", "target", shape[2]),
            )
        ]

    def features(self, first: int, count: int) -> dict[str, np.ndarray]:
        """Returns the features of some batches, [count, rows, length] each.

        Args:
            first: Number of the first batch, from 0.
            count: Number of batches.
        """
        begin, rows = first * self._rows, count * self._rows
        part = slice(*np.searchsorted(self._rows_P, [begin, begin + rows]))
        pairs_P, rows_P = self._pairs_P[part], self._rows_P[part] - begin
        features = {}
        for prefix, tokens, offsets, bound in self._sides:
            names = ("input_tokens", "segment_ids", "positions")
            parts = _pack(tokens, offsets, pairs_P, rows_P, (rows, bound))
            features |= {
                f"{prefix}_{name}": array
                for name, array in zip(names, parts, strict=True)
            }
        target_BT = features["decoder_input_tokens"]
        shifted_BT = np.zeros_like(target_BT)
        shifted_BT[:, 1:] = target_BT[:, :-1]
        # The first input of each pair is padding, not the end of the pair before.
        shifted_BT[features["decoder_positions"] == 0] = 0
        features |= {
            "decoder_target_tokens": target_BT,
            "decoder_input_tokens": shifted_BT,
            "decoder_loss_weights": (features["decoder_segment_ids"] > 0).astype("f4"),
        }
        return {
            name: array.reshape(count, self._rows, -1)
            for name, array in features.items()
        }


def _pack(
    tokens: np.ndarray,
    offsets: np.ndarray,
    pairs_P: np.ndarray,
    rows_P: np.ndarray,
    shape: tuple[int, int],
) -> np.ndarray:
    """Returns ids, segments and positions of one side, [3, B, L] int32.

    As `t2t_keras.input_pipeline.batches.packing.make_packed_batch` documents them.
    """
    lengths_P = offsets[pairs_P + 1] - offsets[pairs_P]
    starts_P = np.cumsum(lengths_P) - lengths_P
    numbers_P = np.arange(len(pairs_P))
    # For each pair the first one of its row.
    is_first_P = np.diff(rows_P, prepend=-1) > 0
    firsts_P = np.maximum.accumulate(np.where(is_first_P, numbers_P, 0))
    pair_N = np.repeat(numbers_P, lengths_P)
    numbers_N = np.arange(len(pair_N))
    positions_N = numbers_N - starts_P[pair_N]
    columns_N = numbers_N - starts_P[firsts_P][pair_N]
    packed = np.zeros((3, *shape), np.int32)
    packed[:, rows_P[pair_N], columns_N] = (
        tokens[offsets[pairs_P][pair_N] + positions_N],
        (numbers_P - firsts_P + 1)[pair_N],
        positions_N,
    )
    return packed
