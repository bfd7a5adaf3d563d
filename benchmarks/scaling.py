"""Growth of a training step's time, compared with the growth of its FLOPs.

    python -m benchmarks.scaling

Starts from one small model and changes one size at a time: tokens per batch, length of
sentences, number of layers, width. All steps are compiled first. Then they are timed in
turn for several rounds, so that a change in the machine's speed affects all of them.
FLOPs count matrix products (t2t_keras/training/profiling.py). Other costs per token
show as a change in seconds per FLOP.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.product_step import (
    build_product_step,
    count_update_flops,
    make_synthetic_batch,
)
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig

VOCABULARY = 8_000
HEAD_WIDTH = 64


@dataclasses.dataclass(frozen=True)
class Point:
    """Sizes of one step: rows of the batch, tokens of each side, layers and width."""

    rows: int = 64
    length: int = 32
    layers: int = 2
    width: int = 256

    @property
    def tokens(self) -> int:
        """Target tokens of a step."""
        return self.rows * self.length


class Cost(NamedTuple):
    """Counted FLOPs and measured seconds of a step."""

    flops: float
    seconds: float


# Name, points, and costs outside the count that may change along the axis.
AXES = (
    (
        "batch tokens",
        tuple(Point(rows=rows) for rows in (8, 16, 32, 64, 128)),
        "Adam and the sums of gradients, which go over all weights once a step, "
        "however few its tokens",
    ),
    (
        "length",
        tuple(
            Point(rows=2048 // length, length=length) for length in (16, 32, 128, 512)
        ),
        "softmax and masks over every pair of positions, which move memory and "
        "multiply nothing",
    ),
    (
        "layers",
        tuple(Point(layers=layers) for layers in (1, 2, 4, 8)),
        "normalization, dropout and residuals, which come with every layer, and that "
        "a layer's products are smaller than the vocabulary's",
    ),
    (
        "width",
        tuple(Point(width=width) for width in (128, 256, 512)),
        "that wide products run nearer to the machine's ceiling, and elementwise work, "
        "which grows with the width and not with its square",
    ),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures all axes; prints a table and a sentence for each axis."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--axis", choices=[name for name, *_ in AXES], help="Measure only this axis."
    )
    args = parser.parse_args(argv)
    axes = [axis for axis in AXES if args.axis in (None, axis[0])]
    costs = measure_costs(
        [point for _, points, _ in axes for point in points], args.rounds
    )
    print("| axis | size | tokens | MFLOP a token | µs a token | ps a FLOP |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, points, _ in axes:
        for point in points:
            print(row(name, point, costs[point]))
    for name, points, uncounted in axes:
        print("\n" + sentence(name, points[0], points[-1], costs, uncounted))


def measure_costs(points: Sequence[Point], rounds: int) -> dict[Point, Cost]:
    """Returns the cost of each point's step, the median over the rounds."""
    built = {point: build_step(point) for point in dict.fromkeys(points)}
    seconds: dict[Point, list[float]] = {point: [] for point in built}
    for _ in range(rounds):
        for point, (step, _) in built.items():
            start = time.perf_counter()
            step()
            seconds[point].append(time.perf_counter() - start)
    return {
        point: Cost(flops, statistics.median(seconds[point]))
        for point, (_, flops) in built.items()
    }


def build_step(point: Point) -> tuple[Callable[[], float], float]:
    """Returns a function that makes a compiled step, and the FLOPs of a step."""
    model = ModelConfig(
        num_layers=point.layers,
        d_model=point.width,
        d_ff=4 * point.width,
        num_heads=point.width // HEAD_WIDTH,
    )
    config = ExperimentConfig(model=model, training=TrainingConfig())
    product = build_product_step(config, VOCABULARY)
    batch = make_synthetic_batch(VOCABULARY, point.rows, point.length, point.length)

    def step() -> float:
        return float(product.stepper.train(batch).losses.loss_sum)

    step()
    return step, count_update_flops(product, batch)


def row(axis: str, point: Point, cost: Cost) -> str:
    """Returns a point's row of the table."""
    return (
        f"| {axis} | {axis_size(axis, point):,} | {point.tokens:,} "
        f"| {cost.flops / point.tokens / 1e6:.1f} "
        f"| {cost.seconds / point.tokens * 1e6:.0f} "
        f"| {cost.seconds / cost.flops * 1e12:.2f} |"
    )


def axis_size(axis: str, point: Point) -> int:
    """Returns a point's size along an axis."""
    return point.tokens if axis == "batch tokens" else getattr(point, axis)


def sentence(
    axis: str, first: Point, last: Point, costs: dict[Point, Cost], uncounted: str
) -> str:
    """Returns a sentence on how much of the change along an axis FLOPs explain."""
    few, many = costs[first], costs[last]
    tokens = last.tokens / first.tokens
    counted = many.flops / few.flops / tokens
    took = many.seconds / few.seconds / tokens
    return (
        f"From {axis_size(axis, first):,} to {axis_size(axis, last):,} ({axis}), the "
        f"FLOPs of a token grow {counted:.2f}-fold and its time {took:.2f}-fold, so a "
        f"FLOP takes {took / counted:.2f} times as long. Not in the count: {uncounted}."
    )


if __name__ == "__main__":
    main()
