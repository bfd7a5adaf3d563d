"""Attention lines, read back from the figure and its SVG, and compared with weights."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from t2t_keras.errors import UserError
from t2t_keras.pictures.drawing import save_figure
from t2t_keras.pictures.line_figure import FAINTEST, line_figure
from t2t_keras.pictures.palette import head_color
from t2t_keras.pictures.words import merge_words
from tests.pictures.random_maps import HOSTILE, H, random_maps


def read_heights(figure: Figure, side: str) -> dict[int, float]:
    """Returns the height of each row's text."""
    texts = {text.get_gid(): text for text in figure.axes[0].texts}
    rows = [gid for gid in texts if gid and gid.startswith(f"{side}-")]
    return {int(gid.split("-")[1]): texts[gid].get_position()[1] for gid in rows}


def read_lines(figure: Figure) -> dict[tuple[int, int, int], float]:
    """Returns the opacity of each line, by head, query and key.

    A line belongs to the words nearest to its ends.
    """
    opacities = {}
    queries, keys = (read_heights(figure, side) for side in ("query", "key"))
    for lines in figure.axes[0].collections:
        assert isinstance(lines, LineCollection)
        head = int(lines.get_gid().removeprefix("head-"))
        colors = lines.get_colors()
        for segment, color in zip(lines.get_segments(), colors, strict=True):
            (left, y_query), (right, y_key) = segment
            assert left < right
            query = min(queries, key=lambda row, y=y_query: abs(queries[row] - y))
            key = min(keys, key=lambda row, y=y_key: abs(keys[row] - y))
            assert to_hex(color) == head_color(head - 1)
            opacities[head, query, key] = color[3]
    return opacities


def expected_lines(weights_HQC, heads, queries) -> dict[tuple[int, int, int], float]:
    return {
        (head, query, key): weights_HQC[head - 1, query, key]
        for head in heads
        for query in queries
        for key in range(weights_HQC.shape[2])
        if weights_HQC[head - 1, query, key] >= FAINTEST
    }


def test_the_opacity_of_each_line_is_its_weight() -> None:
    choices = ((1, None), (2, [3, 1]))
    for row in itertools.product(("encoder", "decoder", "memory"), choices):
        kind, (layer, heads) = row
        attention = getattr(random_maps(), kind)
        drawn = read_lines(line_figure(attention, layer, heads))
        expected = expected_lines(
            attention.weights[layer - 1],
            heads or range(1, H + 1),
            range(len(attention.queries)),
        )
        assert drawn.keys() == expected.keys(), row
        assert len(drawn) < attention.weights[0].size, row  # some are too faint
        for line, opacity in expected.items():
            assert drawn[line] == pytest.approx(opacity, abs=1e-6), (row, line)


def test_lines_and_boxes_of_a_chosen_word() -> None:
    attention = merge_words(random_maps().memory)
    figure = line_figure(attention, 1, [1, 3], words=["Äpfel"])
    row = attention.queries.index("Äpfel")
    weights_HQC = attention.weights[0]
    expected = expected_lines(weights_HQC, [1, 3], [row])
    assert read_lines(figure) == pytest.approx(expected, abs=1e-6)
    boxes = {
        patch.get_gid(): patch
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle)
    }
    assert len(boxes) == 2 * len(attention.keys)
    keys = read_heights(figure, "key")
    for head in (1, 3):
        for key in range(len(attention.keys)):
            box = boxes[f"box-{head}-{key}"]
            assert box.get_facecolor()[3] == pytest.approx(
                weights_HQC[head - 1, row, key]
            )
            assert box.get_y() < keys[key] < box.get_y() + box.get_height()
    # The other words are gray.
    texts = {text.get_gid(): text.get_color() for text in figure.axes[0].texts}
    assert texts[f"query-{row}"] == "black"
    assert texts["query-0"] != "black"


def test_a_subword_is_found_with_or_without_its_space_mark() -> None:
    attention = random_maps().encoder
    for word in ("▁app", "app"):
        lines = read_lines(line_figure(attention, 1, words=[word]))
        assert {query for _, query, _ in lines} == {1}


def test_the_svg_has_the_same_lines(tmp_path) -> None:
    attention = random_maps().encoder
    path = tmp_path / "lines.svg"
    save_figure(line_figure(attention, 2, [2], title="Title"), path)
    root = ElementTree.parse(path).getroot()
    (group,) = (e for e in root.iter() if e.get("id") == "head-2")
    opacities = []
    for line in group.iter("{http://www.w3.org/2000/svg}path"):
        style = line.get("style", "")
        assert f"stroke: {head_color(1)}" in style
        opacity = re.search(r"stroke-opacity: ([\d.]+)", style)
        opacities.append(float(opacity[1]) if opacity else 1.0)
    weights_QC = attention.weights[1, 1]
    expected = weights_QC[weights_QC >= FAINTEST]
    np.testing.assert_allclose(opacities, expected, atol=1e-5)
    texts = [
        "".join(text.itertext())
        for text in root.iter("{http://www.w3.org/2000/svg}text")
    ]
    for token in (*attention.queries, "Title"):
        assert token in texts


def test_hostile_words_are_drawn(tmp_path) -> None:
    path = tmp_path / "lines.svg"
    figure = line_figure(random_maps(HOSTILE, HOSTILE).encoder, 1, title="$x$")
    save_figure(figure, path)
    texts = ElementTree.parse(path).getroot().itertext()
    assert {"▁<script>alert(1)</script>"[:23] + "…", "▁$x^2$", "$x$"} <= set(texts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": 3}, "There is no layer 3: the model has 2, counted from 1."),
        ({"layer": 1, "heads": [4]}, "There is no head 4: a layer has 3"),
        (
            {"layer": 1, "words": ["pear"]},
            "There is no word 'pear' to draw lines from. There are: ▁The ▁app les",
        ),
    ],
)
def test_missing_layers_heads_and_words_are_refused(arguments, message) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        line_figure(random_maps().encoder, **arguments)
