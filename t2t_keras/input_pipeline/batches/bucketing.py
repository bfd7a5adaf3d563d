"""Length bucketing: the shapes to pad batches to, chosen from a corpus' lengths.

XLA compiles a program for every shape, so there are few; each has a source bound
and a target bound of its own, so there is little padding (ADR 0017).

Shapes: N pairs of a corpus; C cells, the different (source, target) lengths; G
candidate bounds, a grid.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records.length_counts import LengthCounts
from t2t_keras.typing import BatchShape

# Source bounds, and target bounds, of the grid from which shapes are first chosen.
_GRID_BOUNDS = 24
# Tokens by which a bound is moved in search of less padding.
_MOVES = (-32, -16, -8, -4, -2, -1, 1, 2, 4, 8, 16, 32)
_ROUNDS_OF_MOVES = 8
# Up to this length, bounds are multiples of one; above, of more.
_FINEST_UP_TO = 1024


class _Cells(NamedTuple):
    """Histogram of the pairs' lengths, counted in units of `unit` tokens."""

    source_C: np.ndarray
    target_C: np.ndarray
    pairs_C: np.ndarray
    unit: int


_Bounds = tuple[int, int]


def largest_shape(
    bounds: _Bounds, tokens_per_batch: int, row_multiple: int = 1
) -> BatchShape:
    """Returns the shape with the most rows that the budget allows.

    Args:
        bounds: Source bound and target bound.
        tokens_per_batch: Maximum positions of one side of a batch, padding included.
            Source and target are counted separately, as in section 5.1 of the paper:
            25,000 and 25,000.
        row_multiple: What the number of rows is a multiple of.

    Raises:
        UserError: If `row_multiple` is below 1, or so many rows do not fit.

    >>> largest_shape((8, 12), tokens_per_batch=100)
    BatchShape(rows=8, source_bound=8, target_bound=12)
    """
    if row_multiple < 1:
        raise UserError(f"row_multiple must be at least 1. Received: {row_multiple}")
    unit = max(bounds) * row_multiple
    if tokens_per_batch < unit:
        needs = "a row of this corpus needs"
        if row_multiple > 1:
            needs = f"{row_multiple} rows of this corpus need"
        raise UserError(
            f"tokens_per_batch is {tokens_per_batch}, but {needs} {unit}. Raise "
            f"--tokens_per_batch to {unit} or more, or lower --max_length."
        )
    return BatchShape(tokens_per_batch // unit * row_multiple, *bounds)


def bucket_shapes(
    lengths: np.ndarray | LengthCounts,
    *,
    max_shapes: int,
    tokens_per_batch: int,
    row_multiple: int = 1,
) -> tuple[BatchShape, ...]:
    """Returns the shapes that leave the least padding, from small to large.

    The search is greedy. The first shape is the longest source by the longest target,
    which holds every pair. Each of the others is the one that saves the most positions
    beside the shapes chosen so far; it must save at least half a batch, because pairs
    left over of a bucket move up. Then every bound is moved while that saves more. All
    counts are whole numbers, so the same lengths give the same shapes on any machine.

    Args:
        lengths: [N, 2] int, source and target length with end of sentence; or the
            number of pairs of each.
        max_shapes: Maximum number of shapes to return, at least 1.
        tokens_per_batch: See `largest_shape`.
        row_multiple: See `largest_shape`.

    Raises:
        ValueError: If there are no lengths, or `max_shapes` is below 1.
        UserError: As `largest_shape`, for the longest sentence.

    >>> shapes = bucket_shapes(
    ...     np.array([[3, 4]] * 60 + [[9, 7]] * 9), max_shapes=2, tokens_per_batch=60
    ... )
    >>> [tuple(shape) for shape in shapes]
    [(15, 3, 4), (6, 9, 7)]
    """
    counts = lengths
    if not isinstance(counts, LengthCounts):
        counts = LengthCounts.from_lengths(counts)
    if max_shapes < 1 or not len(counts.pairs):
        raise ValueError(
            "max_shapes must be at least 1, and there must be a pair. Received: "
            f"max_shapes={max_shapes}, {counts.pairs.sum()} pairs"
        )
    longest = (int(counts.source.max()), int(counts.target.max()))
    largest_shape(longest, tokens_per_batch, row_multiple)
    cells = _count_lengths(counts)
    choice = _choose_bounds(cells, max_shapes, tokens_per_batch)
    choice = _move_bounds(cells, choice)
    bounds = {
        (min(source * cells.unit, longest[0]), min(target * cells.unit, longest[1]))
        for source, target in choice
    }
    return tuple(
        largest_shape(pair, tokens_per_batch, row_multiple)
        for pair in sorted(bounds, key=lambda pair: (sum(pair), pair))
    )


def smallest_shapes(lengths: np.ndarray, shapes: Sequence[BatchShape]) -> np.ndarray:
    """Returns the number of the shape that pads each pair least, [N] uint16.

    Ties go to the first.

    Args:
        lengths: [N, 2] int.
        shapes: From small to large; the last holds all pairs.

    Raises:
        ValueError: If a pair is longer than the last shape.
    """
    last = shapes[-1]
    too_long = (lengths > (last.source_bound, last.target_bound)).any(axis=1)
    if too_long.any():
        raise ValueError(
            f"Pairs must be no longer than the largest shape, {last}. "
            f"Received: a pair of lengths {tuple(map(int, lengths[too_long][0]))}"
        )
    # A table of all lengths: looking up 36 million pairs takes a second, comparing each
    # of them with every shape half a minute.
    table = np.empty([last.source_bound + 1, last.target_bound + 1], np.uint16)
    for number, shape in reversed(list(enumerate(shapes))):
        table[: shape.source_bound + 1, : shape.target_bound + 1] = number
    return table[lengths[:, 0], lengths[:, 1]]


def _count_lengths(counts: LengthCounts) -> _Cells:
    unit = -(-int(max(counts.source.max(), counts.target.max())) // _FINEST_UP_TO)
    source, target = (-(-side // unit) for side in (counts.source, counts.target))
    return _count_cells(source, target, counts.pairs)._replace(unit=unit)


def _count_cells(sources: np.ndarray, targets: np.ndarray, pairs: np.ndarray) -> _Cells:
    """Returns one cell for each combination of lengths, with the sum of its pairs."""
    width = int(targets.max()) + 1
    # As float64, which is exact: sums stay below 2^53 in any order.
    counts = np.bincount(sources * width + targets, weights=pairs).astype(np.float64)
    used = np.flatnonzero(counts)
    return _Cells(*np.divmod(used, width), counts[used], unit=1)


def _choose_bounds(cells: _Cells, max_shapes: int, least_saving: int) -> list[_Bounds]:
    """Returns the bounds that hold every cell, then greedily the best of a grid."""
    sources = _quantiles(cells.source_C, cells.pairs_C)
    targets = _quantiles(cells.target_C, cells.pairs_C)
    coarse = _count_cells(
        sources[np.searchsorted(sources, cells.source_C)],
        targets[np.searchsorted(targets, cells.target_C)],
        cells.pairs_C,
    )
    grid = [(source, target) for source in sources for target in targets]
    costs_GC = np.array([_costs(coarse, bounds) for bounds in grid])
    choice, costs_C = [len(grid) - 1], costs_GC[-1]
    while len(choice) < max_shapes:
        savings_G = _savings(costs_C, costs_GC, coarse.pairs_C)
        best = int(np.argmax(savings_G))
        if savings_G[best] <= least_saving:
            break
        choice.append(best)
        costs_C = np.minimum(costs_C, costs_GC[best])
    return [(int(grid[number][0]), int(grid[number][1])) for number in choice]


def _quantiles(length_C: np.ndarray, pairs_C: np.ndarray) -> np.ndarray:
    """Returns quantiles of the tokens of a side by length; the last is the longest."""
    tokens = np.bincount(length_C, weights=pairs_C * length_C)
    cumulative = np.cumsum(tokens) * _GRID_BOUNDS
    thresholds = np.arange(1, _GRID_BOUNDS + 1) * tokens.sum()
    return np.unique(np.searchsorted(cumulative, thresholds))


def _move_bounds(cells: _Cells, bounds: list[_Bounds]) -> list[_Bounds]:
    """Returns bounds moved to where they save the most, one after the other.

    The first bounds stay, since they hold every cell.
    """
    bounds = list(bounds)
    costs = [_costs(cells, pair) for pair in bounds]
    for _ in range(_ROUNDS_OF_MOVES):
        before = list(bounds)
        for number in range(1, len(bounds)):
            others_C = np.min(costs[:number] + costs[number + 1 :], axis=0)
            candidates = [bounds[number], *_neighbors(bounds[number])]
            savings = [
                _savings(others_C, _costs(cells, pair), cells.pairs_C)
                for pair in candidates
            ]
            bounds[number] = candidates[int(np.argmax(savings))]
            costs[number] = _costs(cells, bounds[number])
        if bounds == before:
            break
    return bounds


def _neighbors(pair: _Bounds) -> list[_Bounds]:
    source, target = pair
    return [
        bounds
        for move in _MOVES
        for bounds in (
            (source + move, target),
            (source, target + move),
            (source + move, target + move),
        )
    ]


def _savings(before_C: np.ndarray, after: np.ndarray, pairs_C: np.ndarray) -> Any:
    """Returns the positions that other costs of a row save, [] or [G].

    `@` would give the same whole numbers, but the threads of BLAS wait for each other
    longer than they compute: on a busy machine, twenty times as long.
    """
    return (np.maximum(before_C - after, 0) * pairs_C).sum(axis=-1)


def _costs(cells: _Cells, bounds: _Bounds) -> np.ndarray:
    """Returns the positions of a row for each cell, infinite where it does not fit."""
    source, target = bounds
    fits_C = (cells.source_C <= source) & (cells.target_C <= target)
    return np.where(fits_C, float(source + target), np.inf)
