"""The paper's figures, against what was typed from it a second time."""

import dataclasses

import pytest

from t2t_keras.reporting import paper_figures
from t2t_keras.reporting.paper_figures import estimated_flops
from tests import paper_table_3


def test_table_3_is_the_papers() -> None:
    typed = [
        (
            row.name,
            float(row.perplexity),
            float(row.bleu),
            None if row.millions == "." else int(row.millions),
        )
        for row in paper_table_3.rows()
    ]
    figures = [
        (row.name, row.perplexity, row.bleu, row.millions)
        for row in paper_figures.TABLE_3
    ]
    assert figures == typed


def test_each_variations_model_is_what_its_cells_say() -> None:
    """Row E learns a position for each token of the longest sentence."""
    typed = {row.name: row.settings for row in paper_table_3.rows()}
    assert len(typed) == len(paper_figures.TABLE_3)
    for row in paper_figures.TABLE_3:
        model = dataclasses.asdict(row.model)
        per_head = row.model.d_model // row.model.num_heads
        sizes = {
            **model,
            "d_k": model["d_k"] or per_head,
            "d_v": model["d_v"] or per_head,
        }
        expected = {**typed["base"], **typed[row.name]}
        if row.name == "big":
            assert (sizes["d_k"], sizes["d_v"]) == (64, 64)
        for name, value in expected.items():
            if name in sizes:
                assert sizes[name] == value, (row.name, name)
        assert model["learned_positions"] == (256 if row.name == "e" else None)
        for name in ("attention_dropout_rate", "encoder_neighborhood"):
            assert not model[name]


def test_a_variation_is_found_by_its_flagfiles_name() -> None:
    found = paper_figures.variation("c5")
    assert found and found[:5] == ("c5", "C5: twice d_model", 4.66, 26.0, 168)
    assert paper_figures.variation("C5") is None


@pytest.mark.parametrize(
    ("hours", "name", "published"),
    [(12, "Transformer (base)", "3.3e+18"), (3.5 * 24, "Transformer (big)", "2.3e+19")],
)
def test_the_papers_costs_follow_from_its_hours(hours, name, published) -> None:
    """Eight P100, of 9.5 TFLOP/s each."""
    p100 = next(d for d in paper_figures.DEVICES if d.name == "P100")
    assert f"{estimated_flops(hours, 8, p100.flops_per_second):.1e}" == published
    system = next(row for row in paper_figures.TABLE_2 if row.name == name)
    assert f"{system.en_de_flops:.1e}" == published


def test_table_2_names_the_best_as_the_paper_does() -> None:
    """Section 6.1: more than 2.0 BLEU above the best before, ensembles included."""
    *others, base, big = paper_figures.TABLE_2
    before = max(row.en_de_bleu for row in others if row.en_de_bleu)
    assert big.en_de_bleu - before > 2.0
    assert base.en_de_bleu > before
    # "Less than 1/4 the training cost of the previous state-of-the-art model".
    single = [r for r in others if "ensemble" not in r.name and r.en_fr_bleu]
    assert all(big.en_fr_bleu > row.en_fr_bleu for row in single)
    best = max(single, key=lambda row: row.en_fr_bleu)
    assert big.en_de_flops < best.en_fr_flops / 4


def test_table_4_is_the_papers() -> None:
    """Section 6.3: better than all but the recurrent grammar, and than all others
    semi-supervised."""
    only = {r.name: r.f1 for r in paper_figures.TABLE_4 if "WSJ only" in r.training}
    semi = {
        r.name: r.f1 for r in paper_figures.TABLE_4 if r.training == "semi-supervised"
    }
    ours = "Transformer (4 layers)"
    assert [name for name, f1 in only.items() if f1 > only[ours]] == [
        "Dyer et al. (2016)"
    ]
    assert max(semi, key=semi.__getitem__) == ours
    assert sorted(r.f1 for r in paper_figures.TABLE_4) == [
        *(88.3, 90.4, 90.4, 91.3, 91.3, 91.3, 91.7, 92.1, 92.1, 92.7, 93.0, 93.3)
    ]


def test_table_1_has_the_four_layer_types() -> None:
    costs = {row.name: (row.complexity, row.path) for row in paper_figures.TABLE_1}
    assert costs == {
        "Self-attention": ("O(n²·d)", "O(1)"),
        "Recurrent": ("O(n·d²)", "O(n)"),
        "Convolutional, kernel k": ("O(k·n·d²)", "O(log_k n)"),
        "Self-attention, restricted to r": ("O(r·n·d)", "O(n/r)"),
    }
    waiting = [row.name for row in paper_figures.TABLE_1 if row.sequential == "O(n)"]
    assert waiting == ["Recurrent"]
