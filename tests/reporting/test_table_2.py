"""Table 2: our figures stand where they may be compared, and nowhere else."""

import dataclasses

import pytest

from t2t_keras.config import BASE, BIG, DataConfig
from t2t_keras.reporting.blocks import Missing, Table
from t2t_keras.reporting.table_2 import is_model, table_2_blocks, target_of
from tests.reporting.runs import score_of, written_run

NOT_RUN = Missing()


def tables(runs) -> list[Table]:
    return [block for block in table_2_blocks(runs) if isinstance(block, Table)]


def test_without_a_run_everything_of_ours_is_named_missing() -> None:
    (table,) = tables([])
    ours = [row for row in table.rows if row.ours]
    assert [row.cells for row in ours] == [
        ("this project, base", *[NOT_RUN] * 4),
        ("this project, big", *[NOT_RUN] * 4),
    ]
    papers = {row.cells[0]: row.cells[1:] for row in table.rows if not row.ours}
    assert papers["ConvS2S"] == ("25.16", "40.46", "9.6·10¹⁸", "1.5·10²⁰")
    assert papers["ByteNet"] == ("23.75", *[Missing("—")] * 3)
    assert papers["Transformer (big)"][:3] == ("28.4", "41.8", "2.3·10¹⁹")


def test_a_base_run_on_wmt14_stands_beside_the_papers(tmp_path) -> None:
    run = written_run(tmp_path / "run", model=BASE)
    table, scores, costs = tables([run])
    ours = {row.cells[0]: row.cells[1:] for row in table.rows if row.ours}
    assert ours["this project, base"] == ("28.15", NOT_RUN, "2.5·10¹⁸", NOT_RUN)
    assert ours["this project, big"] == (NOT_RUN,) * 4
    assert scores.rows[0].cells[1:] == (
        *("wmt14_translate/de-en (en-de)", "40", "3", "28.15", "27.64", "51.50"),
    )
    # 12 hours of eight: as the paper's base on P100, which is 3.3e18.
    assert costs.rows[0].cells[1:] == (
        *("12.00", "8", "2.5·10¹⁸", "5.8·10¹³", Missing("not measured")),
        *("9.7·10¹⁷", "1.3·10¹⁸", "2.1·10¹⁸", "3.3·10¹⁸"),
    )


def test_a_big_run_to_french_has_its_own_column(tmp_path) -> None:
    data = DataConfig(dataset="wmt14_translate/fr-en", target_language="fr")
    run = written_run(tmp_path / "r", "wmt14_translate/fr-en", BIG, data)
    ours = {row.cells[0]: row.cells[1:] for row in tables([run])[0].rows if row.ours}
    assert ours["this project, big"] == (NOT_RUN, "28.15", NOT_RUN, "2.5·10¹⁸")


@pytest.mark.parametrize(
    ("corpus", "data"),
    [
        ("grammar_ende/1.0.0 en-de", DataConfig(dataset="grammar_ende")),
        # Of WMT14, but another test set or another direction.
        ("wmt14_translate/de-en", DataConfig(test_source=("a",), test_target=("b",))),
        (
            "wmt14_translate/de-en",
            DataConfig(source_language="de", target_language="en"),
        ),
        ("wmt14_translate/cs-en", DataConfig(target_language="cs")),
    ],
)
def test_another_test_set_is_not_set_beside_the_papers(tmp_path, corpus, data) -> None:
    run = written_run(tmp_path / "run", corpus, BASE, data)
    assert target_of(run) is None
    table, scores, _ = tables([run])
    assert all(
        cell == NOT_RUN for row in table.rows if row.ours for cell in row.cells[1:]
    )
    assert "28.15" in scores.rows[0].cells


def test_a_variation_of_base_is_not_base(tmp_path) -> None:
    given = dataclasses.replace(BASE, d_k=64, d_v=64, dropout_rate=0.2)
    narrow = dataclasses.replace(BASE, d_k=32)
    assert is_model(written_run(tmp_path / "a", model=given), BASE)
    assert not is_model(written_run(tmp_path / "b", model=narrow), BASE)


def test_a_measured_ceiling_gives_the_papers_estimate(tmp_path) -> None:
    cost = {
        "step": 40,
        "hours": 1.0,
        "devices": 2,
        "flops": 1e15,
        "flops_per_second": 2.8e11,
        "paper_estimate_flops": 4.2e15,
    }
    run = written_run(tmp_path / "run", training_cost=cost)
    assert tables([run])[2].rows[0].cells[5] == "4.2·10¹⁵"


def test_what_a_run_lacks_is_named(tmp_path) -> None:
    run = written_run(tmp_path / "run", training_cost={}, scores={}, averaged={})
    _, scores, costs = tables([run])
    assert scores.rows[0].cells[2:] == (NOT_RUN,) * 5
    assert costs.rows[0].cells[1:] == (NOT_RUN,) * 9


def test_a_language_without_the_papers_bleu(tmp_path) -> None:
    score = score_of()
    del score["tokenized_bleu"]
    run = written_run(tmp_path / "r", scores={"test averaged/step-40": score})
    assert tables([run])[1].rows[0].cells[4] == NOT_RUN
