"""Published figures of the paper's Tables 1 to 4.

Source: Vaswani et al., "Attention Is All You Need" (2017), arXiv
1706.03762v7. Where a table has no figure, neither has this module: None.
"""

import dataclasses
from typing import Any, NamedTuple

from t2t_keras.settings.model_config import BASE, ModelConfig

SOURCE = 'Vaswani et al., "Attention Is All You Need" (2017), arXiv 1706.03762v7'


class LayerType(NamedTuple):
    """A row of Table 1: costs of a layer of n positions and width d.

    Attributes:
        name: Name in the paper.
        complexity: Complexity of the whole layer.
        sequential: Number of sequential operations.
        path: Maximum path length between two positions.
    """

    name: str
    complexity: str
    sequential: str
    path: str


TABLE_1 = (
    LayerType("Self-attention", "O(n²·d)", "O(1)", "O(1)"),
    LayerType("Recurrent", "O(n·d²)", "O(n)", "O(n)"),
    LayerType("Convolutional, kernel k", "O(k·n·d²)", "O(1)", "O(log_k n)"),
    LayerType("Self-attention, restricted to r", "O(r·n·d)", "O(1)", "O(n/r)"),
)


class TranslationSystem(NamedTuple):
    """A row of Table 2, on newstest2014.

    Attributes:
        name: Name in the paper.
        en_de_bleu: English to German: tokenized, and compounds split.
        en_fr_bleu: English to French: tokenized.
        en_de_flops: Training cost in FLOPs.
        en_fr_flops: The same for the other model.
    """

    name: str
    en_de_bleu: float | None = None
    en_fr_bleu: float | None = None
    en_de_flops: float | None = None
    en_fr_flops: float | None = None


# The paper gives the Transformers' costs once, between the two columns.
TABLE_2 = (
    TranslationSystem("ByteNet", 23.75),
    TranslationSystem("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    TranslationSystem("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    TranslationSystem("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    TranslationSystem("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    TranslationSystem("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    TranslationSystem("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    TranslationSystem("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    TranslationSystem("Transformer (base)", 27.3, 38.1, 3.3e18, None),
    TranslationSystem("Transformer (big)", 28.4, 41.8, 2.3e19, None),
)


class Device(NamedTuple):
    """A GPU and the paper's estimate of its sustained single-precision FLOP/s."""

    name: str
    flops_per_second: float


# A footnote of section 6.1.
DEVICES = (
    Device("K80", 2.8e12),
    Device("K40", 3.7e12),
    Device("M40", 6.0e12),
    Device("P100", 9.5e12),
)


class Variation(NamedTuple):
    """A row of Table 3, on newstest2013, English to German.

    Attributes:
        name: Name of the flagfile in `configs/table3`.
        title: Row and its variation, in words.
        perplexity: Per word piece.
        bleu: Tokenized, without averaged checkpoints.
        millions: Parameters, in whole millions; None where the table has no figure.
        model: Model settings of the row.
    """

    name: str
    title: str
    perplexity: float
    bleu: float
    millions: int | None
    model: ModelConfig


def _vary(
    name: str,
    title: str,
    perplexity: float,
    bleu: float,
    millions: int | None = None,
    **changes: Any,
) -> Variation:
    """Returns a row whose model differs from base by some settings."""
    model = dataclasses.replace(BASE, **changes)
    return Variation(name, title, perplexity, bleu, millions, model)


TABLE_3 = (
    _vary("base", "base", 4.92, 25.8, 65),
    _vary("a1", "A1: 1 head", 5.29, 24.9, num_heads=1, d_k=512, d_v=512),
    _vary("a2", "A2: 4 heads", 5.00, 25.5, num_heads=4, d_k=128, d_v=128),
    _vary("a3", "A3: 16 heads", 4.91, 25.8, num_heads=16, d_k=32, d_v=32),
    _vary("a4", "A4: 32 heads", 5.01, 25.4, num_heads=32, d_k=16, d_v=16),
    _vary("b1", "B1: a quarter of d_k", 5.16, 25.1, 58, d_k=16),
    _vary("b2", "B2: half of d_k", 5.01, 25.4, 60, d_k=32),
    _vary("c1", "C1: a third of the layers", 6.11, 23.7, 36, num_layers=2),
    _vary("c2", "C2: two thirds of the layers", 5.19, 25.3, 50, num_layers=4),
    _vary("c3", "C3: four thirds of the layers", 4.88, 25.5, 80, num_layers=8),
    _vary("c4", "C4: half of d_model", 5.75, 24.5, 28, d_model=256, d_k=32, d_v=32),
    _vary("c5", "C5: twice d_model", 4.66, 26.0, 168, d_model=1024, d_k=128, d_v=128),
    _vary("c6", "C6: half of d_ff", 5.12, 25.4, 53, d_ff=1024),
    _vary("c7", "C7: twice d_ff", 4.75, 26.2, 90, d_ff=4096),
    _vary("d1", "D1: no dropout", 5.77, 24.6, dropout_rate=0.0),
    _vary("d2", "D2: dropout 0.2", 4.95, 25.5, dropout_rate=0.2),
    _vary("d3", "D3: no label smoothing", 4.67, 25.3),
    _vary("d4", "D4: label smoothing 0.2", 5.47, 25.7),
    _vary("e", "E: learned positions", 4.92, 25.7, learned_positions=256),
    _vary(
        "big",
        "big",
        4.33,
        26.4,
        213,
        d_model=1024,
        d_ff=4096,
        num_heads=16,
        dropout_rate=0.3,
    ),
)


class Parser(NamedTuple):
    """A row of Table 4: F1 on section 23 of the Wall Street Journal."""

    name: str
    training: str
    f1: float


TABLE_4 = (
    Parser("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    Parser("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    Parser("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    Parser("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    Parser("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    Parser("Zhu et al. (2013)", "semi-supervised", 91.3),
    Parser("Huang & Harper (2009)", "semi-supervised", 91.3),
    Parser("McClosky et al. (2006)", "semi-supervised", 92.1),
    Parser("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    Parser("Transformer (4 layers)", "semi-supervised", 92.7),
    Parser("Luong et al. (2015)", "multi-task", 93.0),
    Parser("Dyer et al. (2016)", "generative", 93.3),
)


def variation(name: str) -> Variation | None:
    """Returns the row of Table 3 of a flagfile's name, None if it has none."""
    return next((row for row in TABLE_3 if row.name == name), None)


def estimated_flops(hours: float, devices: int, flops_per_second: float) -> float:
    """Returns a training cost as section 6.1 estimates it.

    That is time x devices x sustained FLOP/s of a device.

    >>> f"{estimated_flops(12, 8, 9.5e12):.1e}"  # base, on eight P100
    '3.3e+18'
    """
    return 3600 * hours * devices * flops_per_second
