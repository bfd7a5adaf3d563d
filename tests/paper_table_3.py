"""Table 3 of the paper, copied by hand; "." marks an empty cell, as in row base.

Columns: row N d_model d_ff h d_k d_v P_drop e_ls steps PPL BLEU params (in 10^6). Row
E differs in its learned positions, which are no column.
"""

from typing import NamedTuple

_TABLE = """
base 6 512  2048 8  64  64  0.1 0.1 100000 4.92 25.8 65
a1   . .    .    1  512 512 .   .   .      5.29 24.9 .
a2   . .    .    4  128 128 .   .   .      5.00 25.5 .
a3   . .    .    16 32  32  .   .   .      4.91 25.8 .
a4   . .    .    32 16  16  .   .   .      5.01 25.4 .
b1   . .    .    .  16  .   .   .   .      5.16 25.1 58
b2   . .    .    .  32  .   .   .   .      5.01 25.4 60
c1   2 .    .    .  .   .   .   .   .      6.11 23.7 36
c2   4 .    .    .  .   .   .   .   .      5.19 25.3 50
c3   8 .    .    .  .   .   .   .   .      4.88 25.5 80
c4   . 256  .    .  32  32  .   .   .      5.75 24.5 28
c5   . 1024 .    .  128 128 .   .   .      4.66 26.0 168
c6   . .    1024 .  .   .   .   .   .      5.12 25.4 53
c7   . .    4096 .  .   .   .   .   .      4.75 26.2 90
d1   . .    .    .  .   .   0.0 .   .      5.77 24.6 .
d2   . .    .    .  .   .   0.2 .   .      4.95 25.5 .
d3   . .    .    .  .   .   .   0.0 .      4.67 25.3 .
d4   . .    .    .  .   .   .   0.2 .      5.47 25.7 .
e    . .    .    .  .   .   .   .   .      4.92 25.7 .
big  . 1024 4096 16 .   .   0.3 .   300000 4.33 26.4 213
"""
SETTINGS = (
    "num_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "dropout_rate",
    "label_smoothing",
    "train_steps",
)


class Row(NamedTuple):
    """Row of the table: the settings in its cells and its results, "." if empty."""

    name: str
    settings: dict[str, float]
    perplexity: str
    bleu: str
    millions: str


def rows() -> list[Row]:
    """Returns all rows, from top to bottom."""
    result = []
    for line in _TABLE.strip().splitlines():
        name, *cells, perplexity, bleu, millions = line.split()
        settings = {
            setting: float(cell)
            for setting, cell in zip(SETTINGS, cells, strict=True)
            if cell != "."
        }
        result.append(Row(name, settings, perplexity, bleu, millions))
    return result
