"""The tables of docs/table3.md, against the runs that they are of."""

import json
import statistics
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs/table3.md").read_text(encoding="utf-8")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def part_about(folder: str) -> str:
    """What the page says between the line that begins a corpus and the next."""
    begin, end = {
        "bundled": ("All nineteen rows on the bundled corpus", "Six rows on Multi30k"),
        "multi30k": ("Six rows on Multi30k", "Base and d1 once more"),
        "multi30k_2000": ("Base and d1 once more", "What of the paper can be seen"),
    }[folder]
    assert _PAGE.count(begin) == _PAGE.count(end) == 1
    return _PAGE[_PAGE.index(begin) : _PAGE.index(end)]


@pytest.mark.parametrize("folder", ["bundled", "multi30k", "multi30k_2000"])
def test_the_page_says_what_the_runs_say(folder):
    kept = _ROOT / "benchmarks/table3" / folder / "ablation.json"
    runs = json.loads(kept.read_text())["runs"]
    rows = {
        line[0].lower(): line
        for line in map(cells, part_about(folder).splitlines())
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
    """As the page says: by 1 to 4 points of BLEU."""
    kept = _ROOT / "benchmarks/table3/bundled/ablation.json"
    bleu = {
        (run["row"], run["seed"]): run["bleu"]
        for run in json.loads(kept.read_text())["runs"]
    }
    behind = [bleu["base", seed] - bleu["a1", seed] for seed in (1, 2, 3)]
    assert 1 < min(behind) < max(behind) < 4
