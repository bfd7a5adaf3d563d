"""Lengths to pad to, and how many sentence pairs fill a batch at each.

Every batch has one of a few shapes, so XLA compiles few programs (ADR 0011).
"""

import itertools
from collections.abc import Iterator, Sequence

from t2t_keras.errors import UserError


def bucket_bounds(max_length: int, bounds_per_doubling: int = 2) -> tuple[int, ...]:
    """Returns the lengths that batches are padded to, the last being the limit.

    They are 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, ...: powers of two
    and the middles between them, the buckets of Tensor2Tensor's base model when
    the paper came out. Past the first bucket, less than a third of the longer
    side is padding. Four bounds per doubling, as its big model had, leave less
    than a fifth, for twice as many shapes to compile.

    Args:
        max_length: The longest side of a pair that is kept, with its end of
            sentence. At least 2.
        bounds_per_doubling: 1, 2, 4 or 8.

    Raises:
        ValueError: If an argument is out of its range.

    >>> bucket_bounds(100)
    (8, 12, 16, 24, 32, 48, 64, 96, 100)
    """
    if max_length < 2:
        raise ValueError(f"max_length must be at least 2. Received: {max_length}")
    if bounds_per_doubling not in (1, 2, 4, 8):
        raise ValueError(
            f"bounds_per_doubling must be 1, 2, 4 or 8. Received: {bounds_per_doubling}"
        )
    bounds = []
    for bound in _ladder(bounds_per_doubling):
        if bound >= max_length:
            return (*bounds, max_length)
        bounds.append(bound)
    raise RuntimeError("The ladder of bounds has no end.")


def bucket_rows(bounds: Sequence[int], tokens_per_batch: int) -> tuple[int, ...]:
    """Returns how many sentence pairs a batch holds, for each bound.

    Args:
        bounds: Padded lengths, ascending.
        tokens_per_batch: Most padded positions of one side of a batch. Source
            and target are counted apart, as in section 5.1 of the paper:
            25,000 and 25,000.

    Raises:
        ValueError: If `bounds` are not ascending from 2.
        UserError: If not even one pair of the largest bound fits.

    >>> bucket_rows((8, 12, 16), tokens_per_batch=100)
    (12, 8, 6)
    """
    _check_bounds(bounds)
    if tokens_per_batch < bounds[-1]:
        raise UserError(
            f"tokens_per_batch is {tokens_per_batch}, but one sentence pair "
            f"of the largest length needs {bounds[-1]}. Raise "
            f"--tokens_per_batch to {bounds[-1]} or more, or lower --max_length."
        )
    return tuple(tokens_per_batch // bound for bound in bounds)


def _ladder(bounds_per_doubling: int) -> Iterator[int]:
    power = 8
    while True:
        step = power // bounds_per_doubling
        yield from range(power, 2 * power, step)
        power *= 2


def _check_bounds(bounds: Sequence[int]) -> None:
    is_ascending = all(a < b for a, b in itertools.pairwise(bounds))
    if not bounds or bounds[0] < 2 or not is_ascending:
        raise ValueError(
            f"bounds must be ascending and at least 2. Received: {tuple(bounds)}"
        )
