"""Exponents of measured costs: slope of a line fitted to their logarithms."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Exponent(NamedTuple):
    """Exponent of a cost that grows with a size to the power of `value`.

    Attributes:
        value: Slope of the line.
        error: Standard error of the slope, from the residuals; NaN for two points.
        smallest: Smallest size in the fit.
        largest: Largest size in the fit.
    """

    value: float
    error: float
    smallest: int
    largest: int

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.error:.2f}"


def fit_exponent(sizes: Sequence[int], costs: Sequence[float]) -> Exponent:
    """Returns the least-squares fit of log(cost) = value * log(size) + constant.

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
    residuals = y - slope * x
    freedom = len(x) - 2
    error = (
        float(np.sqrt(residuals @ residuals / freedom / spread))
        if freedom
        else float("nan")
    )
    return Exponent(slope, error, min(sizes), max(sizes))
