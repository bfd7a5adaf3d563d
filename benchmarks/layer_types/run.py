"""Measurement of the paper's Table 1: time, memory, FLOPs, sequence, path length.

    python -m benchmarks.layer_types --output=runs/layer_types

Measures each layer over lengths n at one width d, and over widths at one length. Times
the forward pass, without and with gradients, for all layers in turn and several rounds.
Measures the peak memory with gradients in separate processes. Exponents are fitted to
the largest sizes, where the paper's O() should show. Writes layer_types.json, .png and
.svg and prints tables.
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
from benchmarks.layer_types.graphs import count_sequential_products, trace_graph
from benchmarks.layer_types.layers import LayerType, layer_types
from benchmarks.layer_types.memory import measure_bytes
from benchmarks.layer_types.path_length import path_lengths
from benchmarks.layer_types.results import Measurements
from benchmarks.layer_types.timing import Point, measure_seconds


def main(argv: Sequence[str] | None = None) -> None:
    """Measures all layers, writes the files and prints the tables."""
    args = _arguments(argv)
    layers = [layer for layer in layer_types() if args.only in layer.name]
    lengths = [(length, args.width) for length in args.lengths]
    widths = [(args.length, width) for width in args.widths]
    sizes = list(dict.fromkeys([*lengths, *widths]))
    started = time.time()
    measurements = Measurements(
        _describe_run(args),
        measure_seconds(layers, sizes, args.rows, args.rounds),
        _measure_memory(
            layers, args.rows, [lengths[-args.fitted :], widths[-args.fitted :]]
        ),
        count_all_sequential_products(
            args.only, args.unrolled_lengths, args.unrolled_widths
        ),
        _measure_paths(args.path_lengths),
    )
    document = results.as_json(layers, measurements, args.fitted)
    document["about"]["minutes"] = round((time.time() - started) / 60, 1)
    output = Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    results.write(output / "layer_types.json", document)
    figure = plot.figure([layer.name for layer in layers], measurements)
    for ending in ("png", "svg"):
        plot.save(figure, output / f"layer_types.{ending}")
    print(", ".join(f"{name} {value}" for name, value in document["about"].items()))
    for name in ("exponents", "products_in_turn", "longest_path"):
        print(f"\n{results.markdown(document[name])}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    def sizes(text: str) -> list[int]:
        return [int(size) for size in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    many = [64, 128, 256, 512, 1024, 2048, 4096]
    parser.add_argument("--output", default="runs/layer_types")
    parser.add_argument(
        "--lengths", type=sizes, default=many, help="Lengths n, at --width."
    )
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument(
        "--widths", type=sizes, default=many[:5], help="Widths d, at --length."
    )
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--fitted", type=int, default=4, help="Number of largest sizes to fit."
    )
    parser.add_argument("--unrolled_lengths", type=sizes, default=[8, 16, 32])
    parser.add_argument("--unrolled_widths", type=sizes, default=[64, 128, 256])
    parser.add_argument("--path_lengths", type=sizes, default=[16, 64, 256])
    parser.add_argument("--only", default="", help="Part of a layer's name.")
    return parser.parse_args(argv)


def _measure_memory(
    layers: Sequence[LayerType], rows: int, sweeps: Sequence[list[tuple[int, int]]]
) -> dict[Point, int]:
    bytes_by_point = {}
    for layer in layers:
        for sweep in sweeps:
            peaks = measure_bytes(layer.name, rows, sweep)
            for (length, width), peak in zip(sweep, peaks, strict=True):
                bytes_by_point[Point(layer.name, length, width)] = peak
    return bytes_by_point


def count_all_sequential_products(
    only: str, lengths: Sequence[int], widths: Sequence[int]
) -> dict[str, dict[tuple[int, int], int]]:
    """Returns the longest chain of dependent products, by layer and (length, width).

    Args:
        only: Part of a layer's name.
        lengths: Lengths to count at the first width.
        widths: Widths to count at the last length.
    """
    sizes = [(length, widths[0]) for length in lengths]
    sizes += [(lengths[-1], width) for width in widths[1:]]
    return {
        layer.name: {
            size: count_sequential_products(trace_graph(layer.build(size[1]), *size))
            for size in sizes
        }
        for layer in layer_types(unrolled=True)
        if only in layer.name
    }


def _measure_paths(lengths: Sequence[int]) -> dict[str, dict[int, int]]:
    by_layer: dict[str, dict[int, int]] = {}
    for length in lengths:
        for name, value in path_lengths(length).items():
            by_layer.setdefault(name, {})[length] = value
    return by_layer


def _describe_run(args: argparse.Namespace) -> dict[str, Any]:
    def git(*arguments: str) -> str:
        root = Path(__file__).parent
        done = subprocess.run(["git", *arguments], capture_output=True, cwd=root)
        return done.stdout.decode().strip()

    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": git("rev-parse", "--short", "HEAD") or "unknown",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load at the start": round(os.getloadavg()[0], 1),
        "rows": args.rows,
        "rounds": args.rounds,
        "largest sizes fitted": args.fitted,
    }
