"""How the cost of a training step grows, beside how its FLOPs grow.

    python -m benchmarks.scaling

One small model, and from it one size changed at a time: tokens of a batch, length of
a sentence, layers, width. Every step is compiled first; then all are timed in turn,
several rounds, so that a machine that drifts drifts for all. Counted are matrix
products (t2t_keras/training/profiling.py); what a token costs beyond them shows as a
change of seconds per FLOP.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.product_step import flops_of, made_up_batch, product_step
from t2t_keras.settings.config import ExperimentConfig, ModelConfig, TrainingConfig

VOCABULARY = 8_000
HEAD_WIDTH = 64


@dataclasses.dataclass(frozen=True)
class Point:
    """The sizes of one step: rows of a batch, tokens of either side, model."""

    rows: int = 64
    length: int = 32
    layers: int = 2
    width: int = 256

    @property
    def tokens(self) -> int:
        """Target tokens of a step."""
        return self.rows * self.length


class Cost(NamedTuple):
    """What a step was counted and measured to cost."""

    flops: float
    seconds: float


# By axis: its points, and what the count leaves out that may change along it.
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
    """Measures all axes and prints a table, and a sentence for each axis."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--axis", choices=[name for name, *_ in AXES], help="Only it.")
    given = parser.parse_args(argv)
    axes = [axis for axis in AXES if given.axis in (None, axis[0])]
    costs = measured([point for _, points, _ in axes for point in points], given.rounds)
    print("| axis | size | tokens | MFLOP a token | µs a token | ps a FLOP |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, points, _ in axes:
        for point in points:
            print(row(name, point, costs[point]))
    for name, points, uncounted in axes:
        print("\n" + sentence(name, points[0], points[-1], costs, uncounted))


def measured(points: Sequence[Point], rounds: int) -> dict[Point, Cost]:
    """Returns the cost of each point's step, the median over rounds."""
    built = {point: built_step(point) for point in dict.fromkeys(points)}
    seconds: dict[Point, list[float]] = {point: [] for point in built}
    for _ in range(rounds):
        for point, (step, _) in built.items():
            begin = time.perf_counter()
            step()
            seconds[point].append(time.perf_counter() - begin)
    return {
        point: Cost(flops, statistics.median(seconds[point]))
        for point, (_, flops) in built.items()
    }


def built_step(point: Point) -> tuple[Callable[[], float], float]:
    """Returns a function that makes a step, compiled, and the FLOPs of one."""
    model = ModelConfig(
        num_layers=point.layers,
        d_model=point.width,
        d_ff=4 * point.width,
        num_heads=point.width // HEAD_WIDTH,
    )
    config = ExperimentConfig(model=model, training=TrainingConfig())
    product = product_step(config, VOCABULARY)
    batch = made_up_batch(VOCABULARY, point.rows, point.length, point.length)

    def step() -> float:
        return float(product.stepper.train(batch).losses.loss_sum)

    step()
    return step, flops_of(product, batch)


def row(axis: str, point: Point, cost: Cost) -> str:
    """Returns a point's row of the table."""
    return (
        f"| {axis} | {size_of(axis, point):,} | {point.tokens:,} "
        f"| {cost.flops / point.tokens / 1e6:.1f} "
        f"| {cost.seconds / point.tokens * 1e6:.0f} "
        f"| {cost.seconds / cost.flops * 1e12:.2f} |"
    )


def size_of(axis: str, point: Point) -> int:
    """Returns a point's size along an axis."""
    return point.tokens if axis == "batch tokens" else getattr(point, axis)


def sentence(
    axis: str, first: Point, last: Point, costs: dict[Point, Cost], uncounted: str
) -> str:
    """Returns how much of the change along an axis the count explains."""
    few, many = costs[first], costs[last]
    tokens = last.tokens / first.tokens
    counted = many.flops / few.flops / tokens
    took = many.seconds / few.seconds / tokens
    return (
        f"From {size_of(axis, first):,} to {size_of(axis, last):,} ({axis}), the FLOPs "
        f"of a token grow {counted:.2f}-fold and its time {took:.2f}-fold, so a FLOP "
        f"takes {took / counted:.2f} times as long. Not in the count: {uncounted}."
    )


if __name__ == "__main__":
    main()
