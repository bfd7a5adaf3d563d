"""From what was measured to exponents, tables, and a file to keep."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.layer_types.fitting import fitted_exponent
from benchmarks.layer_types.layers import LayerType
from benchmarks.layer_types.timing import Point, Seconds
from t2t_keras.files.atomic import write_text


class Measurements(NamedTuple):
    """All of a run.

    Attributes:
        about: When, where, and with what.
        seconds: Of a call, for all rows together.
        bytes: Peak memory of training, for all rows together.
        in_turn: Products that wait for one another, for each layer at some
            (length, width).
        paths: Longest paths, for each kind of layer at some lengths.
    """

    about: Mapping[str, Any]
    seconds: Mapping[Point, Seconds]
    bytes: Mapping[Point, int]
    in_turn: Mapping[str, Mapping[tuple[int, int], int]]
    paths: Mapping[str, Mapping[int, int]]


def along(points: Sequence[Point], axis: str, largest: int) -> list[Point]:
    """Returns the last points of a sweep, whose other size is the commonest.

    Args:
        points: Of one layer.
        axis: "length" or "width", what the sweep changes.
        largest: How many points to return, those of the largest sizes.
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
    return str(fitted_exponent(sizes, [costs[point] for point in points]))


def exponents(
    layers: Sequence[LayerType], measured: Measurements, largest: int
) -> list[dict[str, str]]:
    """Returns a row for each layer: the paper's exponents, and those found."""
    rows = []
    for layer in layers:
        counted = {
            point: layer.flops(point.length, point.width)
            for point in measured.seconds
            if point.layer == layer.name
        }
        costs: dict[str, Mapping[Point, float]] = {
            "FLOPs": counted,
            "forward": {p: s.forward for p, s in measured.seconds.items()},
            "training": {p: s.training for p, s in measured.seconds.items()},
            "memory": measured.bytes,
        }
        row = {"layer": layer.name, "paper": f"O({layer.complexity})"}
        for axis, letter in (("length", "n"), ("width", "d")):
            for name, cost in costs.items():
                row[f"{name}, in {letter}"] = exponent(cost, layer.name, axis, largest)
        rows.append(row)
    return rows


def lengths_table(found: Mapping[str, Mapping[int, int]]) -> list[dict[str, Any]]:
    """Returns a row for each layer, a column for each length."""
    return [
        {"layer": layer, **{f"n = {length}": value for length, value in values.items()}}
        for layer, values in found.items()
    ]


def sizes_table(
    found: Mapping[str, Mapping[tuple[int, int], int]],
) -> list[dict[str, Any]]:
    """Returns a row for each layer, a column for each (length, width)."""
    return [
        {"layer": layer, **{f"n = {n}, d = {d}": each for (n, d), each in own.items()}}
        for layer, own in found.items()
    ]


def as_json(
    layers: Sequence[LayerType], measured: Measurements, largest: int
) -> dict[str, Any]:
    """Returns tables as lists of rows, and below "points" every figure behind them."""
    points = {
        f"{point.layer}; n = {point.length}; d = {point.width}": {
            "forward_seconds": seconds.forward,
            "training_seconds": seconds.training,
            "training_bytes": measured.bytes.get(point),
        }
        for point, seconds in measured.seconds.items()
    }
    return {
        "about": dict(measured.about),
        "exponents": exponents(layers, measured, largest),
        "products_in_turn": sizes_table(measured.in_turn),
        "longest_path": lengths_table(measured.paths),
        "points": points,
    }


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns a table of rows that have the same columns."""
    header = list(rows[0])
    lines = [header, ["---"] * len(header)]
    lines += [[str(row[name]) for name in header] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(path: Path, facts: Mapping[str, Any]) -> None:
    """Writes a JSON file atomically."""
    write_text(path, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
