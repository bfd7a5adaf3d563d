"""Plot of the cost of layers: time and memory against length and width."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.layer_types.results import Measurements, along
from benchmarks.layer_types.timing import Point


def figure(layers: Sequence[str], measurements: Measurements) -> Figure:
    """Returns four panels with logarithmic axes and a line for each layer."""
    plot = Figure(figsize=(11, 8), layout="constrained")
    panels = plot.subplots(2, 2, sharex="col")
    seconds = {point: each.training for point, each in measurements.seconds.items()}
    megabytes = {point: each / 1e6 for point, each in measurements.bytes.items()}
    named = (("seconds, forward + backward", seconds), ("peak MB", megabytes))
    for row, (name, costs) in zip(panels, named, strict=True):
        for panel, axis in zip(row, ("length", "width"), strict=True):
            _draw(panel, layers, costs, axis)
            panel.set_ylabel(name)
            panel.set_xlabel(f"{axis} ({'n' if axis == 'length' else 'd'})")
    handles, labels = panels[0][0].get_legend_handles_labels()
    plot.legend(handles, labels, loc="outside lower center", ncols=3)
    return plot


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


def save(plot: Figure, path: Path) -> None:
    """Writes a PNG or SVG, according to the suffix of the path."""
    plot.savefig(path, dpi=150)
