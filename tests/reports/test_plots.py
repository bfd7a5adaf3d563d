"""Plots contain exactly the given values."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from t2t_keras.reports.plots import Curve, Panel, plot_curves, plot_dots


def path_points(svg: str, color: str) -> list[np.ndarray]:
    """Points of every line of a color, in units of the drawing."""
    found = []
    for path, style in re.findall(r'<path d="([^"]+)"[^>]*style="([^"]+)"', svg):
        if f"stroke: {color}" in style and "fill: none" in style:
            numbers = re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path)
            found.append(np.array(numbers, dtype=float))
    return found


def test_a_curve_is_drawn_through_its_points() -> None:
    steps, values = [100, 200, 400, 800], [7.0, 5.0, 4.0, 3.5]
    svg = plot_curves([Panel("Loss", [Curve("train", steps, values)])])
    (line,) = path_points(svg, "#0072b2")
    assert len(line) == 4
    # Linear from values to positions, rightward and upward.
    for column, given in ((0, steps), (1, values)):
        slope, _ = np.polyfit(given, line[:, column], 1)
        assert np.corrcoef(given, line[:, column])[0, 1] ** 2 == pytest.approx(1)
        assert (slope > 0) == (column == 0)


def test_a_logarithmic_axis_is_one() -> None:
    values = [1.0, 10.0, 100.0]
    svg = plot_curves([Panel("PPL", [Curve("", [1, 2, 3], values)], log=True)])
    (line,) = path_points(svg, "#0072b2")
    assert np.diff(line[:, 1])[0] == pytest.approx(np.diff(line[:, 1])[1])


def find_dots(svg: str, color: str) -> list[float]:
    """Horizontal position of each dot of a color."""
    uses = re.findall(r'<use [^>]*x="([-\d.]+)"[^>]*style="([^"]*)"', svg)
    return [float(x) for x, style in uses if color in style]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_drawing_may_contain_any_name() -> None:
    texts = ["$x^", "<b>&", "_private", "$\\frac{1}{", "é 日本"]
    curves = [Curve(text, [1, 2], [3, 4]) for text in texts]
    ElementTree.fromstring(plot_curves([Panel(text, curves) for text in texts]))
    for label in texts:
        ElementTree.fromstring(
            plot_dots(texts, [[0.1]] * 5, [None] * 5, [0.0] * 5, label)
        )


def test_every_seed_is_a_dot_and_every_published_figure_a_line() -> None:
    ours = [[math.log(1.1), math.log(1.2), math.log(1.15)], [math.log(0.9)]]
    svg = plot_dots(["a1", "c5"], ours, [math.log(1.075), None], [0.01, -0.01], "PPL")

    ours_drawn, papers_drawn = find_dots(svg, "#0072b2"), find_dots(svg, "#d55e00")
    # The legend has one more of each.
    assert len(ours_drawn) == 4 + 1
    assert len(papers_drawn) == 1 + 1
    values = [value for row in ours for value in row]
    without_one = (
        [x for j, x in enumerate(ours_drawn) if j != i] for i in range(len(ours_drawn))
    )
    fits = [np.corrcoef(values, places)[0, 1] for places in without_one]
    assert max(fits) == pytest.approx(1)
