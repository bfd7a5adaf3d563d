"""Table 1 of the report: the paper's values and our measurements."""

import json

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reports.blocks import Command, Missing, Paragraph, Table
from t2t_keras.reports.table_1 import table_1_blocks


def test_without_measurements_the_command_is_shown() -> None:
    table, command = table_1_blocks(None)
    assert isinstance(table, Table) and isinstance(command, Command)
    assert {row.cells[-1] for row in table.rows} == {Missing()}
    assert command.text.startswith("python -m benchmarks.layer_types --output=")


def test_each_list_of_records_is_a_table(tmp_path) -> None:
    facts = {
        "about": {"machine": "two cores", "rounds": 5},
        "fitted_exponents": [
            {"layer": "recurrent", "paper": "O(n)", "n": 0.98765, "d": 2},
            {"layer": "<b>", "paper": "O(1)", "n": None, "d": 1.5},
        ],
        "nothing": [],
    }
    (tmp_path / "layer_types.json").write_text(json.dumps(facts))
    first, second, about = table_1_blocks(tmp_path)
    assert isinstance(first, Table) and isinstance(second, Table)
    assert about == Paragraph("machine: two cores; rounds: 5", quiet=True)
    assert (first.text_columns, second.text_columns) == (5, 2)
    assert {row.cells[-1] for row in first.rows} == {"see below"}
    assert second.caption == "Measured: fitted exponents"
    assert second.header == ("layer", "paper", "n", "d")
    assert [row.cells for row in second.rows] == [
        ("recurrent", "O(n)", "0.9877", "2"),
        ("<b>", "O(1)", Missing("not measured"), "1.5"),
    ]


def test_seconds_and_memory_are_shown_at_the_largest_sizes(tmp_path) -> None:
    points = {
        "self-attention; n = 64; d = 64": (1e-4, 2e-4, None),
        "self-attention; n = 4096; d = 64": (0.0630067, 0.2486732, 1130770432),
        "self-attention; n = 512; d = 1024": (0.02438, 0.07185, 343826432),
        "a; b, k = 3; n = 4096; d = 64": (1.4996, 0.5, None),
    }
    names = ("forward_seconds", "training_seconds", "training_bytes")
    facts = {name: dict(zip(names, each, strict=True)) for name, each in points.items()}
    path = tmp_path / "layer_types.json"
    path.write_text(json.dumps({"about": {"rows": 4}, "points": facts}))
    _, longest, widest, _ = table_1_blocks(tmp_path)
    assert isinstance(longest, Table) and isinstance(widest, Table)
    assert longest.caption == "Measured: a batch of 4, n = 4,096, d = 64"
    assert [row.cells for row in longest.rows] == [
        ("self-attention", "63", "249", "1,130.8"),
        ("a; b, k = 3", "1,500", "500", Missing("not measured")),
    ]
    assert widest.caption == "Measured: a batch of 4, n = 512, d = 1,024"
    assert widest.rows[0].cells == ("self-attention", "24.4", "71.8", "343.8")


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": [1]}', '{"points": {"x; n = 1; d = 2": {}}}']
)
def test_another_file_is_refused(tmp_path, text) -> None:
    (tmp_path / "layer_types.json").write_text(text)
    with pytest.raises(UserError, match=r"layer_types\.json is not what benchmarks\."):
        table_1_blocks(tmp_path)
