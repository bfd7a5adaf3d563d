"""Heat map of attention weights for every head: the darker, the more attention.

Shapes: R layers, H heads, Q queries, C keys.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from t2t_keras.model.sentence_maps import AttentionMap
from t2t_keras.pictures.drawing import check_layer, label, text_settings
from t2t_keras.pictures.palette import head_color

# Maximum number of tokens that get labels; more would be illegible.
MOST_NAMED = 48
# Heads in a row, where one layer is drawn.
HEADS_IN_A_ROW = 4

_INCHES_OF_A_TOKEN = 0.13
_LEAST_INCHES, _MOST_INCHES = 1.1, 6.0


def heat_map_figure(
    attention: AttentionMap, layer: int | None = None, *, title: str = ""
) -> Figure:
    """Returns a figure of all heads of a layer, or of all layers.

    Queries go from top to bottom, keys from left to right. White is 0 and the
    darkest is 1 in every field.

    Args:
        attention: Map of one kind.
        layer: Layer, from 1; None draws all of them, a row of fields for each.
        title: Title above the figure.

    Raises:
        UserError: If there is no such layer.
    """
    layers, heads = attention.weights.shape[:2]
    if layer is not None:
        check_layer(layer, layers)
    places = [
        (r, h) for r in range(layers) if layer in (None, r + 1) for h in range(heads)
    ]
    columns = heads if layer is None else min(heads, HEADS_IN_A_ROW)
    rows = -(-len(places) // columns)
    width, height = (_inches(side) for side in (attention.keys, attention.queries))
    named = _is_named(attention)
    figure = Figure(
        figsize=(columns * width + 1.6, rows * (height + 0.3) + 1.1),
        layout="constrained",
    )
    figure.suptitle(title, weight="bold", size=10)
    fields = figure.subplots(rows, columns, squeeze=False)
    for axes in fields.flat:
        axes.axis("off")
    image = None
    for number, (r, h) in enumerate(places):
        row, column = divmod(number, columns)
        axes = fields[row, column]
        axes.axis("on")
        image = _draw(axes, attention.weights[r, h], h, f"layer {r + 1}, head {h + 1}")
        last = number + columns >= len(places)
        _name(axes, attention.keys if last and named else (), "x")
        _name(axes, attention.queries if column == 0 and named else (), "y")
    if image is not None:
        figure.colorbar(image, ax=fields, shrink=0.5, aspect=24, label="weight")
    return figure


def _inches(side: Sequence[str]) -> float:
    return float(np.clip(_INCHES_OF_A_TOKEN * len(side), _LEAST_INCHES, _MOST_INCHES))


def _is_named(attention: AttentionMap) -> bool:
    return max(len(attention.queries), len(attention.keys)) <= MOST_NAMED


def _draw(axes: Axes, weights_QC: np.ndarray, head: int, name: str):
    axes.set_title(name, size=8, color=head_color(head))
    for spine in axes.spines.values():
        spine.set(color=head_color(head), linewidth=0.8)
    return axes.imshow(
        weights_QC,
        cmap="Blues",
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
        gid=name,
    )


def _name(axes: Axes, tokens: Sequence[str], side: str) -> None:
    """Writes the tokens along a side, or nothing."""
    labels = [label(token) for token in tokens]
    turned = {"rotation": 90} if side == "x" else {}
    axes.set(**{f"{side}ticks": range(len(labels))})
    setter = axes.set_xticklabels if side == "x" else axes.set_yticklabels
    setter(labels, size=7, **turned, **text_settings())
    axes.tick_params(length=0)
