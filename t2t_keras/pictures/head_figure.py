"""Figure of the attention heads: a row for each head, darker for more."""

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from t2t_keras.model.sentence_maps import kind_title
from t2t_keras.pictures.head_statistics import HeadStatistics
from t2t_keras.pictures.head_table import SHARES, name_head
from t2t_keras.pictures.palette import head_color

# All are from 0 to 1, on one scale.
SHOWN = (*SHARES, "evenness")

_ROW = 0.24
_WIDTH = 4.1


def head_figure(heads: Sequence[HeadStatistics], *, title: str = "") -> Figure:
    """Returns a figure with a table of heads for each kind of attention."""
    kinds = list(dict.fromkeys(head.kind for head in heads))
    rows = max(sum(head.kind == kind for head in heads) for kind in kinds)
    figure = Figure(
        figsize=(_WIDTH * len(kinds), _ROW * rows + 1.6), layout="constrained"
    )
    figure.suptitle(title, weight="bold", size=10)
    fields = figure.subplots(1, len(kinds), squeeze=False)[0]
    for axes, kind in zip(fields, kinds, strict=True):
        _draw(axes, [head for head in heads if head.kind == kind])
        axes.set_title(kind_title(kind), size=9)
    return figure


def _draw(axes: Axes, heads: Sequence[HeadStatistics]) -> None:
    values = np.array([[getattr(head, name) for name in SHOWN] for head in heads])
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto", gid=heads[0].kind)
    for row, column in np.ndindex(values.shape):
        value = values[row, column]
        # NaN stays white.
        text = "-" if np.isnan(value) else f"{100 * value:.0f}"
        color = "white" if value > 0.55 else "black"
        axes.text(column, row, text, ha="center", va="center", size=7, color=color)
    axes.set_xticks(range(len(SHOWN)), SHOWN, rotation=40, ha="left", size=8)
    axes.xaxis.tick_top()
    names = [f"{head.layer}.{head.head} {name_head(head)}" for head in heads]
    axes.set_yticks(range(len(heads)), names, size=8)
    for tick, head in zip(axes.get_yticklabels(), heads, strict=True):
        tick.set_color(head_color(head.head - 1))
    for row, (head, after) in enumerate(itertools.pairwise(heads)):
        if head.layer != after.layer:
            axes.axhline(row + 0.5, color="black", linewidth=0.8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
