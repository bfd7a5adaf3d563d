"""Curves and dots as SVG, drawn by matplotlib without a screen."""

import io
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

# Ink for words, a color for each curve: Okabe and Ito's, for all kinds of color vision.
_INK, _QUIET, _GRID = "#1d1f21", "#6a6f75", "#e6e8ea"
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# Inches; a page scales them to its width.
_WIDTH, _HEIGHT, _ROW_HEIGHT = 7.6, 2.5, 0.235


class Curve(NamedTuple):
    """A curve.

    Attributes:
        label: Name of the line in the legend.
        steps: Steps of the measurements, ascending.
        values: Measured values.
    """

    label: str
    steps: Sequence[float]
    values: Sequence[float]


class Panel(NamedTuple):
    """Axes with curves; the title names the quantity and its unit."""

    title: str
    curves: Sequence[Curve]
    log: bool = False


def plot_curves(panels: Sequence[Panel]) -> str:
    """Returns an SVG of panels, two in a row, over training steps."""
    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(_WIDTH, _HEIGHT * rows), layout="constrained")
    axes = figure.subplots(rows, 2, squeeze=False).ravel()
    for field, panel in zip(axes, panels, strict=False):
        _style_axes(field)
        for curve, color in zip(panel.curves, itertools.cycle(_COLORS), strict=False):
            marker = "o" if len(curve.steps) == 1 else None
            field.plot(
                curve.steps,
                curve.values,
                color=color,
                linewidth=1.4,
                marker=marker,
                label=_escape_text(curve.label),
            )
        if panel.log:
            field.set_yscale("log")
        field.set_title(_escape_text(panel.title), loc="left", fontsize=9, color=_INK)
        field.set_xlabel("step", fontsize=8, color=_QUIET)
        if len(panel.curves) > 1:
            field.legend(frameon=False, fontsize=8)
    for field in axes[len(panels) :]:
        field.set_visible(False)
    return _svg(figure)


def plot_dots(
    labels: Sequence[str],
    ours: Sequence[Sequence[float]],
    papers: Sequence[float | None],
    own: Sequence[float],
    axis: str,
) -> str:
    """Returns an SVG with a line for each row: a dot for each seed, and the paper's.

    Args:
        labels: Names of the rows, from the top.
        ours: Natural logarithms of ratios to the base, one per seed.
        papers: The same for the paper; None where it has no such row.
        own: The base's own seeds, whose spread is drawn as a band.
        axis: Label of the axis.
    """
    height = _ROW_HEIGHT * len(labels) + 0.9
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    field = figure.subplots()
    _style_axes(field)
    places = np.arange(len(labels))
    field.axvspan(min(own), max(own), color=_GRID, linewidth=0)
    field.axvline(0, color=_QUIET, linewidth=0.8)
    for place, values in zip(places, ours, strict=True):
        field.plot(
            values,
            [place] * len(values),
            "o",
            color=_COLORS[0],
            markersize=4.5,
            alpha=0.75,
            markeredgewidth=0,
            label="ours, a seed" if not place else None,
        )
    known = [(x, y) for x, y in zip(papers, places, strict=True) if x is not None]
    if known:
        field.plot(
            *zip(*known, strict=True),
            "|",
            color=_COLORS[1],
            markersize=11,
            markeredgewidth=1.8,
            label="the paper's",
        )
    field.set_yticks(places, [_escape_text(label) for label in labels])
    field.set_ylim(len(labels) - 0.4, -0.6)
    field.xaxis.set_major_formatter(lambda value, _: f"{np.exp(value):.2f}")
    field.set_xlabel(_escape_text(axis), fontsize=8, color=_QUIET)
    field.legend(frameon=False, fontsize=8, loc="best")
    return _svg(figure)


def _style_axes(field: Any) -> None:
    field.spines[["top", "right"]].set_visible(False)
    field.spines[["left", "bottom"]].set_color(_QUIET)
    field.tick_params(labelsize=8, colors=_QUIET)
    field.grid(color=_GRID, linewidth=0.6)
    field.set_axisbelow(True)


def _escape_text(text: str) -> str:
    """Returns text without matplotlib's formulas and private labels."""
    return text.replace("$", r"\$").lstrip("_")


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    # No date and no random names: the same figures make the same drawing.
    with matplotlib.rc_context({"svg.hashsalt": "t2t_keras"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
