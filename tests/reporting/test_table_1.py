"""Table 1: the paper's, and whatever the benchmark has measured."""

import json

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reporting.blocks import Command, Missing, Table
from t2t_keras.reporting.table_1 import table_1_blocks


def test_not_measured_is_said_with_the_command_that_measures() -> None:
    table, command = table_1_blocks(None)
    assert isinstance(table, Table) and isinstance(command, Command)
    assert {row.cells[-1] for row in table.rows} == {Missing()}
    assert command.text == "python -m benchmarks.layer_types"


def test_each_list_of_records_is_a_table(tmp_path) -> None:
    facts = {
        "machine": "two cores",
        "fitted_exponents": [
            {"layer": "recurrent", "n": 0.98765, "d": 2},
            {"layer": "<b>", "n": None, "d": 1.5},
        ],
        "nothing": [],
    }
    (tmp_path / "layers.json").write_text(json.dumps(facts))
    first, second = table_1_blocks(tmp_path / "layers.json")
    assert isinstance(first, Table) and isinstance(second, Table)
    assert {row.cells[-1] for row in first.rows} == {"see below"}
    assert second.caption == "Measured: fitted exponents"
    assert second.header == ("layer", "n", "d")
    assert [row.cells for row in second.rows] == [
        ("recurrent", "0.9877", "2"),
        ("<b>", Missing("not measured"), "1.5"),
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"a": [1]}'])
def test_another_file_is_refused(tmp_path, text) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UserError, match=r"x\.json is not what benchmarks\.layer_types"):
        table_1_blocks(tmp_path / "x.json")
