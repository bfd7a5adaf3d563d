"""Table 4: the paper's parsers, and ours."""

from t2t_keras.reporting.blocks import Missing, Table
from t2t_keras.reporting.table_4 import parser_scores, table_4_blocks
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
    figures = {"recall": 98.0, "precision": 99.5, "complete_match": 70.0}
    parser = {"step": 40, "sentences": 1000, "f1": 98.765, **figures}
    run = written_run(
        tmp_path / "run", "trees", scores={"test averaged/step-40": parser}
    )
    _, table = table_4_blocks([run])
    assert isinstance(table, Table)
    assert f"{tmp_path / 'run'}, on trees: labelled brackets" in table.caption
    assert [row.cells for row in table.rows] == [
        (
            *("test averaged/step-40", "1,000", "98.77", "98.00", "99.50", "70.00"),
            Missing("unknown"),
        )
    ]


def test_scores_of_translations_are_none_of_a_parser(tmp_path) -> None:
    scores = {"a": {"step": 1, "f1": 90.0}, "b": score_of()}
    run = written_run(tmp_path / "run", scores=scores)
    assert [name for name, _ in parser_scores(run)] == ["a"]
