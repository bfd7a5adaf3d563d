"""Line figure of attention between words, as in the paper's appendix.

Shapes: H heads, Q queries, C keys.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from t2t_keras.errors import UserError
from t2t_keras.model.sentence_maps import AttentionMap
from t2t_keras.pictures.drawing import (
    GRAY,
    check_heads,
    check_layer,
    label,
    text_settings,
)
from t2t_keras.pictures.palette import head_color
from t2t_keras.pictures.words import SPACE

# Weights below this cannot be seen, and are not drawn.
FAINTEST = 0.02

# Inches: a row of words, the space between the columns, a letter, and a head's box.
_ROW = 0.23
_BETWEEN = 2.6
_LETTER = 0.085
_BOX = 0.11
_MARGIN = 0.08


def line_figure(
    attention: AttentionMap,
    layer: int,
    heads: Sequence[int] | None = None,
    *,
    words: Sequence[str] | None = None,
    title: str = "",
) -> Figure:
    """Returns a figure with queries on the left and keys on the right.

    A line is as opaque as its weight, in the color of its head. Where single words
    are chosen, boxes beside the words on the right have the same opacity.

    Args:
        attention: Map of one kind.
        layer: Layer, from 1.
        heads: Heads, from 1; None draws all.
        words: Words on the left whose lines are drawn; None draws all.
        title: Title above the figure.

    Raises:
        UserError: If there is no such layer, head or word.
    """
    layers, of = attention.weights.shape[:2]
    heads = range(1, of + 1) if heads is None else heads
    check_layer(layer, layers)
    check_heads(heads, of)
    chosen = _select_queries(attention.queries, words)
    weights_HQC = attention.weights[layer - 1][[head - 1 for head in heads]]
    rows = max(len(attention.queries), len(attention.keys))
    boxes = _BOX * len(heads) if words else 0.0
    sides = [
        _LETTER * max(len(label(token)) for token in side) + _MARGIN
        for side in (attention.queries, attention.keys)
    ]
    left, right = -sides[0], _BETWEEN + sides[1] + boxes
    top = _ROW * 2.2
    figure = Figure(figsize=(right - left, top + _ROW * rows))
    axes = cast(Axes, figure.add_axes((0, 0, 1, 1)))
    # One unit is one inch, and the first word is on top.
    axes.set(xlim=(left, right), ylim=(_ROW * rows, -top))
    axes.axis("off")
    _draw_heading(axes, title, heads, left)
    _draw_words(axes, attention, chosen, boxes)
    _draw_lines(axes, weights_HQC, heads, chosen)
    if words:
        _draw_boxes(axes, weights_HQC[:, chosen].mean(axis=1), heads)
    return figure


def _select_queries(queries: Sequence[str], words: Sequence[str] | None) -> list[int]:
    """Returns the indices of the queries whose lines are drawn."""
    if not words:
        return list(range(len(queries)))
    indices: list[int] = []
    for word in words:
        here = [
            index
            for index, query in enumerate(queries)
            if word in (query, query.removeprefix(SPACE))
        ]
        if not here:
            raise UserError(
                f"There is no word {word!r} to draw lines from. There are: "
                f"{' '.join(queries)}"
            )
        indices += here
    return sorted(set(indices))


def _middle(row: int) -> float:
    return _ROW * (row + 0.5)


def _draw_heading(axes: Axes, title: str, heads: Sequence[int], left: float) -> None:
    settings = text_settings()
    axes.text(left, -_ROW * 1.7, title, weight="bold", va="center", **settings)
    for number, head in enumerate(heads):
        x = left + 0.55 + 0.24 * number
        axes.text(
            x,
            -_ROW * 0.75,
            f"{head}",
            size=8,
            va="center",
            ha="center",
            color="white",
            bbox={"facecolor": head_color(head - 1), "edgecolor": "none", "pad": 2.4},
        )
    axes.text(left, -_ROW * 0.75, "heads", size=8, va="center", color=GRAY)


def _draw_words(
    axes: Axes, attention: AttentionMap, chosen: Sequence[int], boxes: float
) -> None:
    settings = text_settings()
    for side, tokens, x, alignment in (
        ("query", attention.queries, -_MARGIN, "right"),
        ("key", attention.keys, _BETWEEN + boxes + _MARGIN, "left"),
    ):
        for row, token in enumerate(tokens):
            faded = side == "query" and row not in chosen
            axes.text(
                x,
                _middle(row),
                label(token),
                ha=alignment,
                va="center_baseline",
                size=10,
                color=GRAY if faded else "black",
                gid=f"{side}-{row}",
                **settings,
            )


def _draw_lines(
    axes: Axes, weights_HQC: np.ndarray, heads: Sequence[int], chosen: Sequence[int]
) -> None:
    for number, (head, weights_QC) in enumerate(zip(heads, weights_HQC, strict=True)):
        # Heads side by side within a word's height, so that none hides another.
        shift = _ROW * 0.6 * ((number + 0.5) / len(heads) - 0.5)
        drawn = [
            (query, int(key))
            for query in chosen
            for key in np.flatnonzero(weights_QC[query] >= FAINTEST)
        ]
        segments = [
            [(0.0, _middle(query) + shift), (_BETWEEN, _middle(key) + shift)]
            for query, key in drawn
        ]
        color = to_rgb(head_color(head - 1))
        strengths = [min(float(weights_QC[pair]), 1.0) for pair in drawn]
        axes.add_collection(
            LineCollection(
                segments,
                colors=[(*color, strength) for strength in strengths],
                linewidths=1.6,
                gid=f"head-{head}",
            ),
            autolim=False,
        )


def _draw_boxes(axes: Axes, weights_HC: np.ndarray, heads: Sequence[int]) -> None:
    for number, (head, weights_C) in enumerate(zip(heads, weights_HC, strict=True)):
        for key, weight in enumerate(weights_C):
            box = Rectangle(
                (_BETWEEN + 0.02 + _BOX * number, _middle(key) - _ROW * 0.42),
                _BOX,
                _ROW * 0.84,
                facecolor=(*to_rgb(head_color(head - 1)), min(float(weight), 1.0)),
                edgecolor="none",
                gid=f"box-{head}-{key}",
            )
            axes.add_patch(box)
