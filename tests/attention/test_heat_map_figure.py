"""Fields of squares are read back from the figure and compared with the weights."""

import numpy as np
import pytest

from t2t_keras.attention.drawing import save_figure
from t2t_keras.attention.heat_map_figure import MOST_NAMED, heat_map_figure
from t2t_keras.errors import UserError
from tests.attention.random_maps import HOSTILE, H, R, random_maps


def read_fields(figure) -> dict[str, np.ndarray]:
    """Returns what each field shows, by its title."""
    return {
        axes.get_title(): axes.images[0].get_array()
        for axes in figure.axes
        if axes.images and axes.get_title()
    }


def test_a_field_for_each_head_of_each_layer() -> None:
    for kind in ("encoder", "decoder", "memory"):
        attention = getattr(random_maps(), kind)
        fields = read_fields(heat_map_figure(attention))
        assert len(fields) == R * H, kind
        for r in range(R):
            for h in range(H):
                found = fields[f"layer {r + 1}, head {h + 1}"]
                expected = attention.weights[r, h]
                np.testing.assert_array_equal(found, expected, err_msg=kind)


def test_one_layer_and_all_fields_have_one_scale() -> None:
    attention = random_maps(heads=5).encoder
    figure = heat_map_figure(attention, 2, title="Title")
    fields = read_fields(figure)
    assert list(fields) == [f"layer 2, head {h}" for h in range(1, 6)]
    for number, field in enumerate(fields.values()):
        np.testing.assert_array_equal(field, attention.weights[1, number])
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert {image.get_clim() for image in images} == {(0.0, 1.0)}
    assert figure.get_suptitle() == "Title"


def test_queries_are_named_on_the_left_and_keys_below() -> None:
    attention = random_maps().memory
    axes = [each for each in heat_map_figure(attention).axes if each.images]
    # Rows of H fields: the first of each row, and all of the last row.
    for number, each in enumerate(axes):
        left = [text.get_text() for text in each.get_yticklabels()]
        below = [text.get_text() for text in each.get_xticklabels()]
        assert left == (list(attention.queries) if number % H == 0 else [])
        assert below == (list(attention.keys) if number >= H * (R - 1) else [])


def test_the_first_query_is_on_top() -> None:
    axes = heat_map_figure(random_maps().memory).axes[0]
    bottom, top = axes.get_ylim()
    assert bottom > top
    assert axes.get_xlim()[0] < axes.get_xlim()[1]


def test_too_many_tokens_are_not_named() -> None:
    words = tuple(f"▁w{number}" for number in range(MOST_NAMED + 1))
    figure = heat_map_figure(random_maps(words, words).encoder)
    assert all(len(each.get_xticklabels()) == 0 for each in figure.axes if each.images)


@pytest.mark.parametrize("form", ["svg", "png"])
def test_hostile_tokens_are_drawn(tmp_path, form) -> None:
    path = tmp_path / f"a.{form}"
    save_figure(heat_map_figure(random_maps(HOSTILE, HOSTILE).decoder), path)
    if form == "svg":
        assert ">▁$x^2$</text>" in path.read_text()


def test_a_layer_that_is_not_there() -> None:
    with pytest.raises(UserError, match="There is no layer 9"):
        heat_map_figure(random_maps().encoder, 9)
