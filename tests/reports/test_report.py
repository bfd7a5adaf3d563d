"""Whole reports of runs and ablations: order of sections, missing parts."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation.results import write_results
from t2t_keras.reports.blocks import Heading, Table
from t2t_keras.reports.rendering import render_html, render_markdown
from t2t_keras.reports.report import ablation_page, read_sources, report_page
from tests.reports.ablations import build_ablation
from tests.reports.runs import write_run


def no_texts(_) -> None:
    return None


@pytest.fixture
def folders(tmp_path) -> list[str]:
    write_run(tmp_path / "one")
    write_run(tmp_path / "two")
    (tmp_path / "rows").mkdir()
    write_results(build_ablation({"base": [(5.0, 20.0)]}), tmp_path / "rows")
    return [str(tmp_path / name) for name in ("one", "rows", "two")]


def test_runs_and_ablations_make_one_report_with_the_four_tables(folders) -> None:
    page = report_page(read_sources(folders), no_texts)
    headings = [
        block.text
        for block in page.blocks
        if isinstance(block, Heading) and block.level == 2
    ]
    assert headings == [
        f"The run {folders[0]}",
        f"The run {folders[2]}",
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


def test_nothing_but_an_ablation(folders) -> None:
    page = report_page(read_sources(folders[1:2]), no_texts)
    assert page.title == f"Report on {folders[1]}"
    text = render_html(page)
    assert "this project, base" in text and "not run" in text


def test_measured_layers_are_table_1(folders, tmp_path) -> None:
    measured = tmp_path / "layers"
    measured.mkdir()
    (measured / "layer_types.json").write_text('{"exponents": [{"layer": "x"}]}')
    sources = read_sources([*folders, str(measured)])
    assert "Measured: exponents" in render_html(report_page(sources, no_texts))
    alone = report_page(read_sources([str(measured)]), no_texts)
    assert alone.title == f"Report on {measured}"


def test_files_of_two_runs_have_two_names(folders) -> None:
    text = render_markdown(report_page(read_sources(folders), no_texts), "report")
    for name in ("run-1-curves", "run-2-curves", "ablation-1-perplexity"):
        assert (f"(report-{name}.svg)" in text) == (name != "ablation-1-perplexity")


def test_hostile_words_of_a_run_do_nothing(tmp_path) -> None:
    evil = "<script>alert(1)</script>|x"
    run = write_run(tmp_path / "run", evil)
    (run.place.translations / "test-averaged-step-40.txt").write_text(f"{evil}\n")
    sources = read_sources([str(tmp_path / "run")])
    page = report_page(sources, lambda _: ([evil], [evil]))
    assert "<script" not in render_html(page)
    assert render_html(page).count("&lt;script&gt;alert(1)&lt;/script&gt;|x") >= 5
    assert "<script" not in render_markdown(page, "r").replace("\\<", "")


def test_an_ablation_has_a_page_of_its_own() -> None:
    page = ablation_page(build_ablation({"base": [(5.0, 20.0)]}))
    assert page.title == "Variations on grammar_ende/1.0.0 en-de"
    assert "arXiv 1706.03762v7" in render_html(page)


def test_what_is_neither_is_refused(tmp_path) -> None:
    message = "is not a model directory, .*no ablation, .*and no output of benchmarks"
    with pytest.raises(UserError, match=message):
        read_sources([str(tmp_path)])
