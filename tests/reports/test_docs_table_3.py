"""docs/table3.md against the flagfiles and the runs that it describes."""

import json
import statistics
from pathlib import Path

import pytest

from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.reports.findings import CLAIMS
from t2t_keras.reports.paper_figures import TABLE_3
from t2t_keras.settings.flags import config_from_flagfile, flatten
from tests.reports.vocabularies import find_vocabulary_sizes

ROOT = Path(__file__).parents[2]
VOCABULARY = 37_000
EXPLAINING = 41_106
PAGE = (ROOT / "docs" / "table3.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def run_in_repository(monkeypatch) -> None:
    """Changes to the repository, because flagfiles include others by relative path."""
    monkeypatch.chdir(ROOT)


def expected_lines() -> list[str]:
    """Lines of the table, computed from the flagfiles."""
    base = flatten(config_from_flagfile("configs/table3/base.flags"))
    found = []
    for row in TABLE_3:
        config = config_from_flagfile(f"configs/table3/{row.name}.flags")
        changes = ", ".join(
            f"`{name}` {value}"
            for name, value in flatten(config).items()
            if value != base[name] and name not in ("save_steps", "train_steps")
        )
        counts = (
            f"{parameter_count(config.model, size) / 1e6:.1f}"
            for size in (VOCABULARY, EXPLAINING)
        )
        paper, vocabularies = "", ""
        if row.millions is not None:
            low, high = find_vocabulary_sizes(config.model, row.millions)
            paper, vocabularies = str(row.millions), f"{low:,.0f} to {high:,.0f}"
        cells = (row.name, changes, *counts, paper, vocabularies)
        found.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return found


def test_the_table_is_what_the_flagfiles_say() -> None:
    assert "\n".join(expected_lines()) in PAGE


def test_the_page_names_the_vocabulary_that_explains_the_counts() -> None:
    text = " ".join(PAGE.split())
    ranges = [
        find_vocabulary_sizes(
            config_from_flagfile(f"configs/table3/{row.name}.flags").model,
            row.millions,
        )
        for row in TABLE_3
        if row.millions is not None and row.name != "big"
    ]
    low, high = max(r.low for r in ranges), min(r.high for r in ranges)
    assert f"from {low:,.0f} to {high:,.0f}" in text
    assert f"{(low + high) / 2:,.0f}" == f"{EXPLAINING:,}"


def test_the_page_names_every_finding() -> None:
    for claim in CLAIMS:
        assert claim.text in PAGE


def test_the_table_is_of_newstest2013_and_so_is_what_training_scores() -> None:
    for path in sorted((ROOT / "configs" / "table3").glob("*.flags")):
        assert "newstest2013" in path.read_text(encoding="utf-8"), path.name
        config = config_from_flagfile(str(path))
        assert config.training.score_split == "dev", path.name


def split_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def read_section(folder: str) -> str:
    """Section of the page about the runs on one corpus."""
    begin, end = {
        "bundled": ("All nineteen rows on the bundled corpus", "Six rows on Multi30k"),
        "multi30k": ("Six rows on Multi30k", "Base and d1 on only"),
        "multi30k_2000": ("Base and d1 on only", "### Which findings appear"),
    }[folder]
    assert PAGE.count(begin) == PAGE.count(end) == 1
    return PAGE[PAGE.index(begin) : PAGE.index(end)]


@pytest.mark.parametrize("folder", ["bundled", "multi30k", "multi30k_2000"])
def test_the_page_has_the_results_of_the_runs(folder):
    path = ROOT / "benchmarks/table3" / folder / "ablation.json"
    runs = json.loads(path.read_text())["runs"]
    rows = {
        line[0].lower(): line
        for line in map(split_cells, read_section(folder).splitlines())
        if len(line) == 10 and line[2] == "3"
    }
    assert set(rows) == {run["row"] for run in runs}
    for name, row in rows.items():
        seeds = [run for run in runs if run["row"] == name]
        assert len(seeds) == 3
        for column, measure, digits in ((3, "perplexity", 3), (4, "bleu", 2)):
            values = [run[measure] for run in seeds]
            mean, spread = statistics.fmean(values), statistics.stdev(values)
            assert row[column] == f"{mean:.{digits}f} ± {spread:.{digits}f}"
    assert {run["bleu_signature"] for run in runs} == {
        "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    }


def test_one_head_is_behind_in_every_seed_on_the_bundled_corpus():
    """The page states a difference of 1 to 4 points of BLEU."""
    kept = ROOT / "benchmarks/table3/bundled/ablation.json"
    bleu = {
        (run["row"], run["seed"]): run["bleu"]
        for run in json.loads(kept.read_text())["runs"]
    }
    behind = [bleu["base", seed] - bleu["a1", seed] for seed in (1, 2, 3)]
    assert 1 < min(behind) < max(behind) < 4
