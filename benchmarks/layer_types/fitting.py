"""Exponents of measured costs: the slope of a line through their logarithms."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Exponent(NamedTuple):
    """How a cost grows with a size: as the size to the power of `value`.

    Attributes:
        value: The slope.
        error: Its standard error, from how far the points lie off the line; NaN where
            two points leave nothing over.
        smallest: The range fitted, of the size.
        largest: The same.
    """

    value: float
    error: float
    smallest: int
    largest: int

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.error:.2f}"


def fitted_exponent(sizes: Sequence[int], costs: Sequence[float]) -> Exponent:
    """Returns the least squares' fit of log(cost) = value * log(size) + something.

    Raises:
        ValueError: If there are fewer than two sizes, or a cost is not positive.
    """
    if len(set(sizes)) < 2 or min(costs) <= 0:
        raise ValueError(
            "A fit needs two sizes or more, and positive costs. "
            f"Received: {list(sizes)} and {list(costs)}"
        )
    x, y = np.log(np.array(sizes, float)), np.log(np.array(costs, float))
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    off = y - slope * x
    freedom = len(x) - 2
    error = float(np.sqrt(off @ off / freedom / spread)) if freedom else float("nan")
    return Exponent(slope, error, min(sizes), max(sizes))
