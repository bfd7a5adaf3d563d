"""Table 4: the paper's parsers, and ours."""

from t2t_keras.reporting.blocks import Missing, Table
from t2t_keras.reporting.table_4 import table_4_blocks
from tests.reporting.runs import score_of, written_run


def test_the_papers_parsers_and_ours_not_run(tmp_path) -> None:
    # A translator is no parser.
    (table,) = table_4_blocks([written_run(tmp_path / "run")])
    assert isinstance(table, Table)
    assert ("Transformer (4 layers)", "semi-supervised", "92.7") in {
        row.cells for row in table.rows
    }
    ours = [row.cells for row in table.rows if row.ours]
    assert ours == [
        ("this project", "WSJ only", Missing()),
        ("this project", "semi-supervised", Missing()),
    ]


def test_a_parser_of_the_report_has_a_table_of_its_own(tmp_path) -> None:
    scores = {"test averaged/step-40": {"step": 40, "f1": 98.765}, "x": score_of()}
    run = written_run(tmp_path / "run", "trees", scores=scores)
    _, table = table_4_blocks([run])
    assert isinstance(table, Table)
    assert [row.cells[1:] for row in table.rows] == [
        ("trees", "test averaged/step-40", "98.77")
    ]
