"""Results of the paper, against a second copy made by hand."""

import pytest

from t2t_keras.reports import paper_figures
from t2t_keras.reports.paper_figures import estimated_flops
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


@pytest.mark.parametrize(
    ("hours", "name", "published"),
    [(12, "Transformer (base)", "3.3e+18"), (3.5 * 24, "Transformer (big)", "2.3e+19")],
)
def test_the_papers_costs_follow_from_its_hours(hours, name, published) -> None:
    """Eight P100 GPUs of 9.5 TFLOP/s each."""
    p100 = next(d for d in paper_figures.DEVICES if d.name == "P100")
    assert f"{estimated_flops(hours, 8, p100.flops_per_second):.1e}" == published
    system = next(row for row in paper_figures.TABLE_2 if row.name == name)
    assert f"{system.en_de_flops:.1e}" == published


# Table 2, copied from the paper by hand: BLEU, then training cost; "." if empty.
TABLE_2 = """
ByteNet                     23.75 .     .      .
Deep-Att + PosUnk           .     39.2  .      1.0e20
GNMT + RL                   24.6  39.92 2.3e19 1.4e20
ConvS2S                     25.16 40.46 9.6e18 1.5e20
MoE                         26.03 40.56 2.0e19 1.2e20
Deep-Att + PosUnk, ensemble .     40.4  .      8.0e20
GNMT + RL, ensemble         26.30 41.16 1.8e20 1.1e21
ConvS2S, ensemble           26.36 41.29 7.7e19 1.2e21
Transformer (base)          27.3  38.1  3.3e18 .
Transformer (big)           28.4  41.8  2.3e19 .
"""


def test_table_2_is_the_papers() -> None:
    typed = [line.rsplit(maxsplit=4) for line in TABLE_2.strip().splitlines()]
    found = [
        [row[0], *("." if figure is None else figure for figure in row[1:])]
        for row in paper_figures.TABLE_2
    ]
    assert found == [
        [name, *(cell if cell == "." else float(cell) for cell in cells)]
        for name, *cells in typed
    ]


# Table 4, copied by hand: WSJ only, semi-supervised, multi-task, generative.
TABLE_4 = """
Vinyals & Kaiser et al. (2014) only 88.3
Petrov et al. (2006)           only 90.4
Zhu et al. (2013)              only 90.4
Dyer et al. (2016)             only 91.7
Transformer (4 layers)         only 91.3
Zhu et al. (2013)              semi 91.3
Huang & Harper (2009)          semi 91.3
McClosky et al. (2006)         semi 92.1
Vinyals & Kaiser et al. (2014) semi 92.1
Transformer (4 layers)         semi 92.7
Luong et al. (2015)            mult 93.0
Dyer et al. (2016)             gene 93.3
"""


def test_table_4_is_the_papers() -> None:
    typed = [line.rsplit(maxsplit=2) for line in TABLE_4.strip().splitlines()]
    found = [
        [row.name, row.training.removeprefix("WSJ ")[:4], str(row.f1)]
        for row in paper_figures.TABLE_4
    ]
    assert found == typed
    # Section 6.3: better than all but the recurrent grammar, and than all others
    # semi-supervised.
    ours = "Transformer (4 layers)"
    only = {name: float(f1) for name, training, f1 in found if training == "only"}
    semi = {name: float(f1) for name, training, f1 in found if training == "semi"}
    assert [name for name in only if only[name] > only[ours]] == ["Dyer et al. (2016)"]
    assert max(semi, key=semi.__getitem__) == ours


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
