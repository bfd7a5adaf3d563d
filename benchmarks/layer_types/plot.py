"""A picture of what layers cost: time and memory against length and width."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.layer_types.results import Measurements, along
from benchmarks.layer_types.timing import Point


def figure(layers: Sequence[str], measured: Measurements) -> Figure:
    """Returns four panels with a line for each layer, both axes logarithmic."""
    drawn = Figure(figsize=(11, 8), layout="constrained")
    panels = drawn.subplots(2, 2, sharex="col")
    seconds = {point: each.training for point, each in measured.seconds.items()}
    megabytes = {point: each / 1e6 for point, each in measured.bytes.items()}
    named = (("seconds, forward + backward", seconds), ("peak MB", megabytes))
    for row, (name, costs) in zip(panels, named, strict=True):
        for panel, axis in zip(row, ("length", "width"), strict=True):
            _draw(panel, layers, costs, axis)
            panel.set_ylabel(name)
            panel.set_xlabel(f"{axis} ({'n' if axis == 'length' else 'd'})")
    handles, labels = panels[0][0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=3)
    return drawn


def _draw(
    panel: Axes, layers: Sequence[str], costs: Mapping[Point, float], axis: str
) -> None:
    for number, layer in enumerate(layers):
        points = along([p for p in costs if p.layer == layer], axis, len(costs))
        panel.loglog(
            [getattr(point, axis) for point in points],
            [costs[point] for point in points],
            marker="os^vDPX*<"[number % 9],
            label=layer,
        )
    panel.grid(visible=True, which="major", alpha=0.3)


def save(drawn: Figure, path: Path) -> None:
    """Writes a PNG or SVG, as the path's ending says."""
    drawn.savefig(path, dpi=150)
