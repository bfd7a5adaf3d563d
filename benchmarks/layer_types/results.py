"""Results of the layer types: exponents, tables and the JSON file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.layer_types.fitting import fit_exponent
from benchmarks.layer_types.layers import LayerType
from benchmarks.layer_types.timing import Point, Seconds
from t2t_keras.files.atomic import write_text


class Measurements(NamedTuple):
    """Measurements of a run.

    Attributes:
        about: Date, commit, machine and settings.
        seconds: Seconds of a call, for all rows together.
        bytes: Peak memory of training in bytes, for all rows together.
        sequential_products: Length of the longest chain of dependent products, by
            layer and (length, width).
        paths: Maximum path lengths, by kind of layer and length.
    """

    about: Mapping[str, Any]
    seconds: Mapping[Point, Seconds]
    bytes: Mapping[Point, int]
    sequential_products: Mapping[str, Mapping[tuple[int, int], int]]
    paths: Mapping[str, Mapping[int, int]]


def along(points: Sequence[Point], axis: str, largest: int) -> list[Point]:
    """Returns the points of a layer's sweep along an axis, with the largest sizes.

    The sweep is the largest set of points with the same size on the other axis.

    Args:
        points: Points of one layer.
        axis: "length" or "width", the size that the sweep changes.
        largest: Number of points to return, those with the largest sizes.
    """
    other = "width" if axis == "length" else "length"
    sweeps: dict[int, list[Point]] = {}
    for point in points:
        sweeps.setdefault(getattr(point, other), []).append(point)
    sweep = max(sweeps.values(), key=len)
    return sorted(sweep, key=lambda point: getattr(point, axis))[-largest:]


def exponent(costs: Mapping[Point, float], layer: str, axis: str, largest: int) -> str:
    """Returns a fitted exponent with its standard error, as text."""
    own = [point for point in costs if point.layer == layer]
    points = along(own, axis, largest)
    sizes = [getattr(point, axis) for point in points]
    return str(fit_exponent(sizes, [costs[point] for point in points]))


def exponents(
    layers: Sequence[LayerType], measurements: Measurements, largest: int
) -> list[dict[str, str]]:
    """Returns a row for each layer: the paper's exponents, then the measured ones."""
    rows = []
    for layer in layers:
        counted = {
            point: layer.flops(point.length, point.width)
            for point in measurements.seconds
            if point.layer == layer.name
        }
        costs: dict[str, Mapping[Point, float]] = {
            "FLOPs": counted,
            "forward": {p: s.forward for p, s in measurements.seconds.items()},
            "training": {p: s.training for p, s in measurements.seconds.items()},
            "memory": measurements.bytes,
        }
        row = {"layer": layer.name, "paper": f"O({layer.complexity})"}
        for axis, letter in (("length", "n"), ("width", "d")):
            for name, cost in costs.items():
                row[f"{name}, in {letter}"] = exponent(cost, layer.name, axis, largest)
        rows.append(row)
    return rows


def lengths_table(by_layer: Mapping[str, Mapping[int, int]]) -> list[dict[str, Any]]:
    """Returns a row for each layer with a column for each length."""
    return [
        {"layer": layer, **{f"n = {length}": value for length, value in values.items()}}
        for layer, values in by_layer.items()
    ]


def sizes_table(
    by_layer: Mapping[str, Mapping[tuple[int, int], int]],
) -> list[dict[str, Any]]:
    """Returns a row for each layer with a column for each (length, width)."""
    return [
        {"layer": layer, **{f"n = {n}, d = {d}": each for (n, d), each in own.items()}}
        for layer, own in by_layer.items()
    ]


def as_json(
    layers: Sequence[LayerType], measurements: Measurements, largest: int
) -> dict[str, Any]:
    """Returns the tables as lists of rows, and under "points" every measurement."""
    points = {
        f"{point.layer}; n = {point.length}; d = {point.width}": {
            "forward_seconds": seconds.forward,
            "training_seconds": seconds.training,
            "training_bytes": measurements.bytes.get(point),
        }
        for point, seconds in measurements.seconds.items()
    }
    return {
        "about": dict(measurements.about),
        "exponents": exponents(layers, measurements, largest),
        "products_in_turn": sizes_table(measurements.sequential_products),
        "longest_path": lengths_table(measurements.paths),
        "points": points,
    }


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns a Markdown table of rows with the same columns."""
    header = list(rows[0])
    lines = [header, ["---"] * len(header)]
    lines += [[str(row[name]) for name in header] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a JSON file atomically."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
