"""docs/table3.md shows the settings and counts that the flagfiles lead to."""

from pathlib import Path

import pytest

from t2t_keras.reports.ablation.parameters import (
    explaining_vocabularies,
    parameter_count,
)
from t2t_keras.reports.findings import CLAIMS
from t2t_keras.reports.paper_figures import TABLE_3
from t2t_keras.settings.flags import config_from_flagfile
from t2t_keras.settings.flat import flat

ROOT = Path(__file__).parents[2]
VOCABULARY = 37_000
EXPLAINING = 41_106


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch) -> None:
    """Flagfiles name the one they start from as seen from there."""
    monkeypatch.chdir(ROOT)


def lines() -> list[str]:
    """The table, worked out from the flagfiles."""
    base = flat(config_from_flagfile("configs/table3/base.flags"))
    found = []
    for row in TABLE_3:
        config = config_from_flagfile(f"configs/table3/{row.name}.flags")
        changes = ", ".join(
            f"`{name}` {value}"
            for name, value in flat(config).items()
            if value != base[name] and name not in ("save_steps", "train_steps")
        )
        counts = (
            f"{parameter_count(config.model, size) / 1e6:.1f}"
            for size in (VOCABULARY, EXPLAINING)
        )
        paper, vocabularies = "", ""
        if row.millions is not None:
            low, high = explaining_vocabularies(config.model, row.millions)
            paper, vocabularies = str(row.millions), f"{low:,.0f} to {high:,.0f}"
        cells = (row.name, changes, *counts, paper, vocabularies)
        found.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return found


def test_the_table_is_what_the_flagfiles_say() -> None:
    text = (ROOT / "docs" / "table3.md").read_text(encoding="utf-8")
    assert "\n".join(lines()) in text


def test_the_page_names_the_vocabulary_that_explains_the_counts() -> None:
    text = " ".join((ROOT / "docs" / "table3.md").read_text(encoding="utf-8").split())
    ranges = [
        explaining_vocabularies(
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
    text = (ROOT / "docs" / "table3.md").read_text(encoding="utf-8")
    for claim in CLAIMS:
        assert claim.text in text


def test_the_table_is_of_newstest2013_and_so_is_what_training_scores() -> None:
    for path in sorted((ROOT / "configs" / "table3").glob("*.flags")):
        assert "newstest2013" in path.read_text(encoding="utf-8"), path.name
        config = config_from_flagfile(str(path))
        assert config.training.score_split == "dev", path.name
