"""Statistics over seeds: means, deviations, intervals, against other formulas."""

import math

import numpy as np
import pytest

from t2t_keras.reports.seed_statistics import difference, spread, student


def t_probability_within(bound: float, freedom: int) -> float:
    """Probability of |t| <= bound under Student's t, by summing the density."""
    x = np.linspace(-bound, bound, 400_001)
    constant = math.gamma((freedom + 1) / 2) / (
        math.sqrt(freedom * math.pi) * math.gamma(freedom / 2)
    )
    density = constant * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    return float(np.trapezoid(density, x))


def test_the_table_has_the_95_percent_bounds_of_students_t() -> None:
    for freedom in range(1, 21):
        assert t_probability_within(student(freedom), freedom) == pytest.approx(
            0.95,
            abs=1e-4,  # the table has three digits
        ), freedom


def test_a_spread_by_hand() -> None:
    found = spread([2.0, 4.0, 9.0])
    assert found is not None
    # Mean 5; deviations 3, 1 and 4: variance 26 / 2.
    assert (found.mean, found.seeds) == (5.0, 3)
    assert found.sd == pytest.approx(math.sqrt(13))
    assert spread([7.0]) == (7.0, None, 1)
    assert spread([]) is None


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_has_no_spread_and_is_not_hidden() -> None:
    inf, nan = math.inf, math.nan
    assert spread([2.0, inf, 3.0]) == (inf, None, 3)
    for values in ([2.0, nan], [inf, nan], [nan]):
        found = spread(values)
        assert found and math.isnan(found.mean) and found.sd is None
    assert difference([inf, 2.0], [1.0, 3.0]) == (inf, None, None)
    assert difference([1.0, 3.0], [inf, 2.0]) == (-inf, None, None)
    both = difference([inf, 2.0], [inf, 3.0])
    assert both and math.isnan(both.mean) and both.low is None


def test_welchs_interval_by_hand() -> None:
    """Variances of [1, 3] and [10, 12, 14, 16] are 2 and 20/3: standard error
    sqrt(2/2 + 20/3/4), degrees of freedom (8/3)² / (1/1 + (5/3)²/3) = 3.69, used: 3."""
    found = difference([10, 12, 14, 16], [1, 3])
    assert found is not None
    assert found.mean == 11
    half = 3.182 * math.sqrt(1 + 5 / 3)
    assert (found.low, found.high) == pytest.approx((11 - half, 11 + half))


def test_equal_spreads_give_whole_degrees_of_freedom() -> None:
    """Two seeds per side with equal variance: 2, computed as 1.9999999999999998."""
    one, other = [2.7, 2.9000000000000004], [27 / 7, 27 / 7 + 0.2]
    found = difference(one, other)
    assert found is not None and found.high is not None
    # The standard error follows from variance 0.02 and two seeds per side.
    assert found.high - found.mean == pytest.approx(4.303 * math.sqrt(0.02))


def test_one_seed_has_no_interval_and_none_no_difference() -> None:
    assert difference([3.0], [1.0, 2.0]) == (1.5, None, None)
    assert difference([], [1.0]) is None
    assert difference([2.0, 2.0], [1.0, 1.0]) == (1.0, 1.0, 1.0)
