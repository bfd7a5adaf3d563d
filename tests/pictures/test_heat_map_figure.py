"""Heat maps, read back from the figure and compared with the weights."""

import numpy as np

from t2t_keras.pictures.drawing import save_figure
from t2t_keras.pictures.heat_map_figure import heat_map_figure
from tests.pictures.random_maps import HOSTILE, H, R, random_maps


def read_heat_maps(figure) -> dict[str, np.ndarray]:
    """Returns the values of each heat map by its title."""
    return {
        axes.get_title(): axes.images[0].get_array()
        for axes in figure.axes
        if axes.images and axes.get_title()
    }


def test_a_heat_map_for_each_head_of_each_layer() -> None:
    for kind in ("encoder", "decoder", "memory"):
        attention = getattr(random_maps(), kind)
        heat_maps = read_heat_maps(heat_map_figure(attention))
        assert len(heat_maps) == R * H, kind
        for r in range(R):
            for h in range(H):
                drawn = heat_maps[f"layer {r + 1}, head {h + 1}"]
                expected = attention.weights[r, h]
                np.testing.assert_array_equal(drawn, expected, err_msg=kind)


def test_the_heat_maps_of_a_layer_share_one_scale() -> None:
    attention = random_maps(heads=5).encoder
    figure = heat_map_figure(attention, 2, title="Title")
    heat_maps = read_heat_maps(figure)
    assert list(heat_maps) == [f"layer 2, head {h}" for h in range(1, 6)]
    for number, heat_map in enumerate(heat_maps.values()):
        np.testing.assert_array_equal(heat_map, attention.weights[1, number])
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert {image.get_clim() for image in images} == {(0.0, 1.0)}
    assert figure.get_suptitle() == "Title"


def test_queries_are_named_on_the_left_and_keys_below() -> None:
    attention = random_maps().memory
    axes = [each for each in heat_map_figure(attention).axes if each.images]
    # With H heat maps per row: the first of each row, and all of the last row.
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


def test_hostile_tokens_are_drawn(tmp_path) -> None:
    path = tmp_path / "a.svg"
    save_figure(heat_map_figure(random_maps(HOSTILE, HOSTILE).decoder), path)
    assert ">▁$x^2$</text>" in path.read_text()
