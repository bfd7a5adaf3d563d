"""Whole reports of runs and ablations: order of sections, missing parts."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation.results import write_results
from t2t_keras.reports.blocks import Heading, Table
from t2t_keras.reports.rendering import render_html
from t2t_keras.reports.report import Sources, read_sources, report_page
from tests.reports.ablations import build_ablation
from tests.reports.runs import (
    papers_base,
    papers_parser,
    write_run,
    write_scored_run,
)


def no_texts(_) -> None:
    return None


@pytest.fixture
def folders(tmp_path) -> list[str]:
    write_run(tmp_path / "one")
    write_run(tmp_path / "two")
    (tmp_path / "rows").mkdir()
    write_results(build_ablation({"base": [(5.0, 20.0)]}), tmp_path / "rows")
    return [str(tmp_path / name) for name in ("one", "rows", "two")]


def headings(page) -> list[str]:
    return [
        block.text
        for block in page.blocks
        if isinstance(block, Heading) and block.level == 2
    ]


def test_runs_and_ablations_make_one_report_with_the_four_tables(folders) -> None:
    page = report_page(read_sources(folders), no_texts, all_tables=True)
    assert headings(page) == [
        f"The run {folders[0]}",
        f"The run {folders[2]}",
        "Comparison of the runs",
        "Table 1: layer types",
        "Table 2: translation",
        "Table 3: variations",
        "Table 4: parsing",
        "Sources",
    ]
    captions = [block.caption for block in page.blocks if isinstance(block, Table)]
    for number in (1, 2, 4):
        assert any(f"Table {number}" in caption for caption in captions)
    assert any("mean ± sd over seeds" in caption for caption in captions)
    assert page.title == f"Report on {folders[0]}, {folders[2]}, {folders[1]}"


def test_a_report_has_only_the_tables_to_which_its_sources_add_results(
    folders, tmp_path
) -> None:
    run = write_run(tmp_path / "mine", "my text")
    page = report_page(Sources([run], ()), no_texts)
    assert headings(page) == [f"The run {run.name}", "Training cost"]
    assert "not run" not in render_html(page)
    write_scored_run(tmp_path / "papers", papers_base())
    score = {"test averaged/step-100000": {"step": 100_000, "f1": 91.3}}
    write_scored_run(tmp_path / "parser", papers_parser(), scores=score)
    sources = read_sources([str(tmp_path / name) for name in ("papers", "parser")])
    for runs, tables in (
        (sources.runs[:1], ["Table 2: translation", "Sources"]),
        (sources.runs[1:], ["Table 4: parsing", "Sources"]),
    ):
        page = report_page(Sources(runs, ()), no_texts)
        assert headings(page)[1:] == ["Training cost", *tables]
    unscored = write_scored_run(tmp_path / "unscored", papers_parser(), scores={})
    for others in ([unscored], read_sources(folders).runs):
        text = render_html(report_page(Sources(others, ()), no_texts))
        assert "Table 2" not in text and "Table 4" not in text
    page = report_page(read_sources(folders[1:2]), no_texts)
    assert page.title == f"Report on {folders[1]}"
    assert headings(page) == ["Table 3: variations", "Sources"]


@pytest.mark.slow
def test_measured_layers_are_table_1(folders, tmp_path) -> None:
    measured = tmp_path / "layers"
    measured.mkdir()
    (measured / "layer_types.json").write_text('{"exponents": [{"layer": "x"}]}')
    sources = read_sources([*folders, str(measured)])
    assert "Measured: exponents" in render_html(report_page(sources, no_texts))
    alone = report_page(read_sources([str(measured)]), no_texts)
    assert alone.title == f"Report on {measured}"


def test_what_is_neither_is_refused(tmp_path) -> None:
    message = "is not a model directory, .*no ablation, .*and no output of benchmarks"
    with pytest.raises(UserError, match=message):
        read_sources([str(tmp_path)])
