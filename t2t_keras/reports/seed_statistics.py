"""Statistics over seeds: mean, spread, and confidence in a difference."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# 97.5th percentile of Student's t by degrees of freedom, from 1. Beyond the table
# the last one is used, which is a little wide.
# fmt: off
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)
# fmt: on


class Spread(NamedTuple):
    """A figure of several seeds.

    Attributes:
        mean: Over the seeds; inf or nan if one of them is.
        sd: Sample standard deviation; None for a single seed or such a mean.
        seeds: Number of seeds.
    """

    mean: float
    sd: float | None
    seeds: int


class Difference(NamedTuple):
    """Difference of two means, with its confidence interval.

    Attributes:
        mean: The difference.
        low: Lower end of the 95 % interval; None where a side has no spread.
        high: Upper end.
    """

    mean: float
    low: float | None
    high: float | None


def spread(values: Sequence[float]) -> Spread | None:
    """Returns mean and standard deviation; None if there are no values."""
    if not values:
        return None
    mean = float(np.mean(values))
    has_spread = len(values) > 1 and math.isfinite(mean)
    sd = float(np.std(values, ddof=1)) if has_spread else None
    return Spread(mean, sd, len(values))


def difference(one: Sequence[float], other: Sequence[float]) -> Difference | None:
    """Returns the mean of `one` minus that of `other`; None if either has no value.

    The interval is Welch's (1947), which does not take both spreads to be equal, with
    degrees of freedom rounded down. Two seeds a side give a wide interval.
    """
    first, second = spread(one), spread(other)
    if first is None or second is None:
        return None
    mean = first.mean - second.mean
    if first.sd is None or second.sd is None:
        return Difference(mean, None, None)
    parts = [each.sd**2 / each.seeds for each in (first, second) if each.sd is not None]
    variance = sum(parts)
    if not variance:
        return Difference(mean, mean, mean)
    freedom = variance**2 / sum(
        part**2 / (each.seeds - 1)
        for part, each in zip(parts, (first, second), strict=True)
    )
    # Rounding may put a whole number slightly below itself.
    half = student(math.floor(freedom + 1e-9)) * math.sqrt(variance)
    return Difference(mean, mean - half, mean + half)


def student(freedom: int) -> float:
    """Returns the 97.5th percentile of Student's t, by degrees of freedom."""
    return _STUDENT[min(max(freedom, 1), len(_STUDENT)) - 1]
