"""Blocks of reports: tables and missing values."""

import pytest

from t2t_keras.reports.blocks import Missing, Row, Table


def test_a_table_with_a_gap_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Each row needs 2 cells.*'a'"):
        Table("t", ("one", "two"), (Row(("a", "b")), Row(("a",))))


def test_a_missing_value_has_a_text() -> None:
    assert Missing().why == "not run"
