"""Formatting of numbers in cells."""

from t2t_keras.reports.blocks import Missing
from t2t_keras.reports.cells import as_number, as_power, as_spread
from t2t_keras.reports.seed_statistics import Spread


def test_powers_are_rounded_before_they_are_named() -> None:
    for value, words in [(9.96e19, "1.0·10²⁰"), (12.0, "1.2·10¹"), (0.05, "5.0·10⁻²")]:
        assert as_power(value) == words, value


def test_nothing_is_made_up_where_there_is_no_figure() -> None:
    assert as_power(None) == as_number(None, 3) == as_spread(None, 2) == Missing()
    assert as_number(None, 0, "—") == Missing("—")
    # Zero is a value.
    assert as_number(0.0, 2) == "0.00"
    assert as_spread(Spread(0.0, 0.0, 2), 1) == "0.0 ± 0.0"
