"""Table 1 of the paper, measured: time, memory, FLOPs, sequence, and path length.

    python -m benchmarks.layer_types --output=runs/layer_types

Each layer over lengths n at one width d, and over widths at one length: seconds of the
forward pass, and with gradients, all in turn, several rounds; peak memory of the
latter, in processes of its own. Exponents are those of the largest sizes, where the
paper's O() should show. Writes layer_types.json, .png and .svg; prints tables.
"""

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.layer_types import plot, results
from benchmarks.layer_types.graphs import graph_of, products_in_turn
from benchmarks.layer_types.layers import LayerType, layer_types
from benchmarks.layer_types.memory import measured_bytes
from benchmarks.layer_types.path_length import path_lengths
from benchmarks.layer_types.results import Measurements
from benchmarks.layer_types.timing import Point, measured_seconds


def main(argv: Sequence[str] | None = None) -> None:
    """Measures everything, prints tables, writes files."""
    given = _arguments(argv)
    layers = [layer for layer in layer_types() if given.only in layer.name]
    lengths = [(length, given.width) for length in given.lengths]
    widths = [(given.length, width) for width in given.widths]
    sizes = list(dict.fromkeys([*lengths, *widths]))
    started = time.time()
    measured = Measurements(
        _about(given),
        measured_seconds(layers, sizes, given.rows, given.rounds),
        _memory(
            layers, given.rows, [lengths[-given.fitted :], widths[-given.fitted :]]
        ),
        in_turn(given.only, given.unrolled_lengths, given.unrolled_widths),
        _paths(given.path_lengths),
    )
    facts = results.as_json(layers, measured, given.fitted)
    facts["about"]["minutes"] = round((time.time() - started) / 60, 1)
    output = Path(given.output)
    output.mkdir(parents=True, exist_ok=True)
    results.write(output / "layer_types.json", facts)
    drawn = plot.figure([layer.name for layer in layers], measured)
    for ending in ("png", "svg"):
        plot.save(drawn, output / f"layer_types.{ending}")
    print(", ".join(f"{name} {value}" for name, value in facts["about"].items()))
    for name in ("exponents", "products_in_turn", "longest_path"):
        print(f"\n{results.markdown(facts[name])}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    def sizes(text: str) -> list[int]:
        return [int(size) for size in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    many = [64, 128, 256, 512, 1024, 2048, 4096]
    parser.add_argument("--output", default="runs/layer_types")
    parser.add_argument("--lengths", type=sizes, default=many, help="n, at --width.")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument(
        "--widths", type=sizes, default=many[:5], help="d, at --length."
    )
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fitted", type=int, default=4, help="Largest sizes to fit.")
    parser.add_argument("--unrolled_lengths", type=sizes, default=[8, 16, 32])
    parser.add_argument("--unrolled_widths", type=sizes, default=[64, 128, 256])
    parser.add_argument("--path_lengths", type=sizes, default=[16, 64, 256])
    parser.add_argument("--only", default="", help="Part of a layer's name.")
    return parser.parse_args(argv)


def _memory(
    layers: Sequence[LayerType], rows: int, sweeps: Sequence[list[tuple[int, int]]]
) -> dict[Point, int]:
    found = {}
    for layer in layers:
        for sweep in sweeps:
            peaks = measured_bytes(layer.name, rows, sweep)
            for (length, width), peak in zip(sweep, peaks, strict=True):
                found[Point(layer.name, length, width)] = peak
    return found


def in_turn(
    only: str, lengths: Sequence[int], widths: Sequence[int]
) -> dict[str, dict[tuple[int, int], int]]:
    """Returns products that wait for one another, by layer and by (length, width).

    Args:
        only: Part of a layer's name.
        lengths: At the first width.
        widths: At the last length.
    """
    sizes = [(length, widths[0]) for length in lengths]
    sizes += [(lengths[-1], width) for width in widths[1:]]
    return {
        layer.name: {
            size: products_in_turn(graph_of(layer.build(size[1]), *size))
            for size in sizes
        }
        for layer in layer_types(unrolled=True)
        if only in layer.name
    }


def _paths(lengths: Sequence[int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for length in lengths:
        for name, value in path_lengths(length).items():
            found.setdefault(name, {})[length] = value
    return found


def _about(given: argparse.Namespace) -> dict[str, Any]:
    def git(*arguments: str) -> str:
        root = Path(__file__).parent
        done = subprocess.run(["git", *arguments], capture_output=True, cwd=root)
        return done.stdout.decode().strip()

    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": git("rev-parse", "--short", "HEAD") or "unknown",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load at the start": round(os.getloadavg()[0], 1),
        "rows": given.rows,
        "rounds": given.rounds,
        "largest sizes fitted": given.fitted,
    }
