"""Table 3 of the report: results of an ablation, and its findings."""

import pytest

from t2t_keras.reports.blocks import Command, Figure, Missing, Paragraph, Table
from t2t_keras.reports.table_3 import ablation_blocks, paper_alone
from tests.reports.ablations import build_ablation
from tests.reports.test_findings import A1, BASE, E


def tables(blocks) -> list[Table]:
    return [block for block in blocks if isinstance(block, Table)]


def read_text(blocks) -> str:
    return " ".join(block.text for block in blocks if isinstance(block, Paragraph))


def test_without_an_ablation_only_the_papers_rows_are_shown() -> None:
    blocks = paper_alone()
    (table,) = tables(blocks)
    assert len(table.rows) == 20
    assert {row.cells[1:3] for row in table.rows} == {(Missing(), Missing())}
    rows = {row.cells[0]: row.cells[3:] for row in table.rows}
    # Parameter counts need no run. By hand: 37,000 x 512 for the vocabulary; an encoder
    # layer has 4 x 512² + 2 x 512 x 2048 + 2560 + 4 x 512, a decoder layer 4 x 512² and
    # 2 x 512 more: 63.0 M in total; big is computed in the same way.
    assert rows["base"] == ("63.0", "4.92", "25.8", "65")
    assert rows["big"] == ("214.2", "4.33", "26.4", "213")
    assert rows["A1: 1 head"][0] == "63.0"
    assert rows["A1: 1 head"][3] == Missing("—")
    assert any(isinstance(block, Command) for block in blocks)


def test_a_row_has_mean_and_spread_beside_the_papers() -> None:
    ablation = build_ablation({"base": BASE, "a1": A1, "e": E, "d1": []})
    table = tables(ablation_blocks(ablation, "x"))[0]
    rows = {row.cells[0]: row.cells[1:] for row in table.rows}
    # The standard deviation of three values at a distance of 0.1 is 0.1; of 1, 1.
    assert rows["base"] == (
        "",
        "3",
        "5.100 ± 0.100",
        "21.00 ± 1.00",
        "0.412",
        "3.0·10¹²",
        "1m30s",
        "4.92",
        "25.8",
        "65",
    )
    assert rows["A1"][0] == "num_heads 1"
    assert rows["A1"][-3:] == ("5.29", "24.9", Missing("—"))
    assert rows["E"][2:4] == ("5.010", "20.10")
    assert rows["D1"][1:4] == (Missing(),) * 3


EXPERIMENTS = (
    ("wmt14_translate/de-en", 100_000, True),
    ("wmt14_translate/de-en", 1000, False),
    ("grammar_ende/1.0.0 en-de", 100_000, False),
)


def test_the_papers_own_experiment_is_told_apart() -> None:
    for corpus, steps, same in EXPERIMENTS:
        ablation = build_ablation({"base": BASE}, corpus=corpus, steps=steps)
        words = read_text(ablation_blocks(ablation, "x"))
        assert ("not the paper's" not in words) == same, (corpus, steps)


@pytest.mark.parametrize("figures", [{"base": []}, {"base": BASE}, {"x": [], "y": E}])
def test_there_may_be_nothing_to_draw_or_compare(figures) -> None:
    blocks = ablation_blocks(build_ablation(figures), "x")
    assert not [block for block in blocks if isinstance(block, Figure)]
    assert len(tables(blocks)) == 1


def test_the_corpus_and_the_failures_are_stated() -> None:
    failures = (("a1", 3, "the loss is not finite"),)
    ablation = build_ablation({"base": BASE, "a1": A1[:2]}, failures=failures)
    blocks = ablation_blocks(ablation, "x")
    text = read_text(blocks)
    assert "grammar_ende/1.0.0 en-de, 1,000 subwords, 40 steps, 3 seeds a row" in text
    assert "5 of 6 runs are done" in text
    assert tables(blocks)[-1].rows[0].cells == ("a1", "3", "the loss is not finite")


def test_rows_of_the_paper_that_an_ablation_lacks_are_named() -> None:
    ablation = build_ablation({"base": BASE, "a1": A1, "mine": A1})
    table = tables(ablation_blocks(ablation, "x"))[0]
    names = [row.cells[0] for row in table.rows]
    assert names[:3] == ["base", "A1", "mine"]
    assert names[3:5] == ["A2", "A3"] and names[-1] == "big"
    assert len(names) == 3 + 18
    big = table.rows[-1].cells
    assert big[1:] == ("", *[Missing()] * 6, "4.33", "26.4", "213")
    assert table.rows[3].cells[1] == "4 heads"
    assert "Rows that it lacks are named" in read_text(ablation_blocks(ablation, "x"))


NAN, INF = float("nan"), float("inf")


DIVERGED = (
    (((6.0, 19.0), (NAN, 0.0), (6.2, 21.0)), "nan", "nan"),
    (((6.0, 19.0), (INF, 0.0), (6.2, 21.0)), "inf", "inf"),
    (((INF, 19.0), (NAN, 0.0)), "nan", "nan"),
    (((NAN, 19.0),), "nan", "nan"),
)


def test_a_seed_that_diverged_is_shown_as_what_it_is() -> None:
    for row, shown, ratio in DIVERGED:
        blocks = ablation_blocks(build_ablation({"base": BASE, "a1": row}), "x")
        table, claims = tables(blocks)
        a1 = next(each.cells for each in table.rows if each.cells[0] == "A1")
        assert a1[3] == shown, row
        assert claims.rows[0].cells[2:4] == ("not finite", ratio), row
        # BLEU is finite, and still compared.
        assert claims.rows[0].cells[4] != "not finite", row
        drawn = [block for block in blocks if isinstance(block, Figure)]
        assert len(drawn) == any(perplexity < INF for perplexity, _ in row), row


def test_a_base_that_diverged_has_nothing_to_be_drawn_against() -> None:
    base = ((NAN, 0.0), (INF, 0.0))
    blocks = ablation_blocks(build_ablation({"base": base, "a1": A1}), "x")
    assert tables(blocks)[0].rows[0].cells[3] == "nan"
    assert not [block for block in blocks if isinstance(block, Figure)]
