"""Table 4 of the report: the paper's parsers, and ours."""

import dataclasses

from t2t_keras.reports.blocks import Missing, Table
from t2t_keras.reports.table_4 import table_4_blocks
from t2t_keras.settings.data_config import DataConfig
from tests.reports.runs import (
    papers_parser,
    write_run,
    write_scored_run,
)

WSJ = "WSJ section 23"


def tables(runs) -> list[Table]:
    return [block for block in table_4_blocks(runs) if isinstance(block, Table)]


def test_the_papers_parsers_and_ours_not_run(tmp_path) -> None:
    # A translator is no parser.
    (table,) = tables([write_run(tmp_path / "run")])
    assert ("Transformer (4 layers)", "semi-supervised", WSJ, "92.7") in {
        row.cells for row in table.rows
    }
    ours = [row.cells for row in table.rows if row.ours]
    assert ours == [
        ("this project", "WSJ only", WSJ, Missing()),
        ("this project", "semi-supervised", WSJ, Missing()),
    ]


def test_a_parser_of_section_23_is_compared_with_the_papers(tmp_path) -> None:
    config = papers_parser()
    score = {
        "step": 100_000,
        "sentences": 2416,
        "f1": 91.27,
        "decoding": config.decoding.as_dict(),
    }
    run = write_scored_run(
        tmp_path / "run", config, scores={"test averaged/step-100000": score}
    )
    ours = [row.cells for row in tables([run])[0].rows if row.ours]
    assert ours == [
        ("this project", "WSJ only", WSJ, "91.3"),
        ("this project", "semi-supervised", WSJ, Missing()),
    ]
    # A second parser has a separate row.
    again = dataclasses.replace(run, name="again")
    *_, last = tables([run, again])[0].rows
    assert last.cells[0] == "this project, again"


def test_a_parser_of_other_trees_is_named_as_what_it_is(tmp_path) -> None:
    data = DataConfig(
        target_language="tree",
        train_source=("/bank/train.mrg",),
        test_source=("/bank/test.mrg",),
    )
    score = {"step": 40, "sentences": 1345, "f1": 61.234, "errors": 20}
    scores = {"test averaged/step-40": score}
    files = write_run(tmp_path / "files", "text files", data=data, scores=scores)
    data = DataConfig(dataset="grammar_ende", target_language="tree")
    score = {"step": 40, "f1": 98.7, "errors": 0}
    scores = {"test averaged/step-40": score}
    bundled = write_run(tmp_path / "b", "grammar 1.0", data=data, scores=scores)
    ours = [row.cells for row in tables([files, bundled])[0].rows if row.ours]
    assert ours[:2] == [
        ("this project", "WSJ only", WSJ, Missing()),
        ("this project", "semi-supervised", WSJ, Missing()),
    ]
    assert ours[2:] == [
        (
            f"this project, {files.name}",
            "train.mrg",
            "1,345 sentences of test.mrg, of which 20 are left out as errors",
            "61.2",
        ),
        (
            f"this project, {bundled.name}",
            "grammar 1.0",
            "sentences of grammar 1.0",
            "98.7",
        ),
    ]


def test_a_parser_of_the_report_has_a_table_of_its_own(tmp_path) -> None:
    figures = {"recall": 98.0, "precision": 99.5, "complete_match": 70.0}
    parser = {"step": 40, "sentences": 1000, "f1": 98.765, **figures}
    run = write_run(tmp_path / "run", "trees", scores={"test averaged/step-40": parser})
    _, table = tables([run])
    assert f"{tmp_path / 'run'}, on trees: labeled brackets" in table.caption
    assert [row.cells for row in table.rows] == [
        (
            "test averaged/step-40",
            "1,000",
            "98.77",
            "98.00",
            "99.50",
            "70.00",
            Missing("unknown"),
        )
    ]
