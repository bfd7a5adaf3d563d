"""Names of heads, and tables of head statistics in TSV and Markdown."""

import csv
import io
import math

import pytest

from t2t_keras.pictures.head_statistics import HeadStatistics, HeadSums
from t2t_keras.pictures.head_table import COLUMNS, as_markdown, as_tsv, name_head
from tests.pictures.random_maps import random_maps

NOTHING = HeadStatistics(
    "encoder", 1, 1, *[0.0] * 8, distance=3.0, entropy=1.0, evenness=0.3, largest=0.6
)


def measure_heads() -> list[HeadStatistics]:
    sums = HeadSums()
    for seed in (1, 2):
        sums.add(random_maps(seed=seed))
    return sums.means()


def test_a_head_has_a_name() -> None:
    rows = (
        ({"previous": 0.4}, "previous"),
        ({"same": 0.7, "begin": 0.6, "near": 1.0}, "same"),
        ({"next": 0.41, "distant": 0.9, "largest": 0.9}, "next"),
        ({"begin": 0.9}, "begin"),
        ({"end": 0.6}, "end"),
        ({"punctuation": 0.6, "end": 0.55}, "punctuation"),
        ({"previous": 0.39, "near": 0.9, "largest": 0.7}, "focused"),
        ({"previous": 0.39, "near": 0.6, "distant": 0.4}, "near"),
        ({"previous": 0.39, "near": 0.59, "distant": 0.4}, "distant"),
        ({"previous": 0.39, "near": 0.59, "distant": 0.39}, "mixed"),
        ({"evenness": 0.8, "previous": 0.6}, "broad"),
        ({"evenness": math.nan, "same": 1.0}, "same"),
    )
    for facts, name in rows:
        assert name_head(NOTHING._replace(**facts)) == name, facts


def test_the_tsv_has_every_number() -> None:
    heads = measure_heads()
    heads[0] = heads[0]._replace(evenness=math.nan)
    rows = list(csv.DictReader(io.StringIO(as_tsv(heads)), delimiter="\t"))
    assert len(rows) == len(heads)
    for row, facts in zip(rows, heads, strict=True):
        assert row["name"] == name_head(facts)
        for column in COLUMNS:
            value = getattr(facts, column)
            if isinstance(value, float):
                read = float(row[column]) if row[column] else math.nan
                assert read == pytest.approx(value, abs=5e-7, nan_ok=True)
            else:
                assert row[column] == str(value)


def test_the_markdown_has_a_table_for_each_kind_in_percent() -> None:
    heads = measure_heads()
    heads[-1] = NOTHING._replace(kind="memory", layer=2, head=3, end=0.614)
    text = as_markdown(heads, "About.")
    assert text.startswith(
        "About.\n\n## Encoder self-attention\n\n| layer | head | name"
    )
    assert text.count("\n## ") == 3
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(heads) + 2 * 3
    assert len({row.count("|") for row in rows}) == 1
    assert (
        rows[-1]
        == "| 2 | 3 | end | 0 | 0 | 0 | 0 | 61 | 0 | 0 | 0 | 3.0 | 1.00 | 30 | 60 |"
    )
    assert as_markdown([NOTHING._replace(evenness=math.nan)]).endswith(" | - | 60 |\n")
