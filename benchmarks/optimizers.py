"""Time of an update with each optimizer, and with R-Drop, compared with Adam's.

    python -m benchmarks.optimizers --config=multi30k --rows=43 --length=48

All steps are compiled first. Then they are timed in turn, so that a change in the
machine's speed affects all of them. Prints a Markdown table: the median of the ratios
to Adam of the same round, with their range.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Sequence

from benchmarks.product_step import (
    build_product_step,
    load_config,
    make_packed_batch,
    make_synthetic_batch,
)
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.typing import Batch

VARIANTS = {
    "adam": {},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.01},
    "schedule_free_adamw": {"optimizer": "schedule_free_adamw"},
    "muon": {"optimizer": "muon"},
    "adam, R-Drop": {"r_drop": 5.0},
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures all variants, and prints their table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default="multi30k", help="flagfile in configs/")
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=43)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args(argv)
    config = load_config(given.config)
    packed = config.data.batching == "pack"
    make = make_packed_batch if packed else make_synthetic_batch
    batch = make(given.vocabulary, given.rows, given.length, given.length)
    seconds = measure(config, batch, given.vocabulary, given.rounds, packed=packed)
    print("| optimizer | s an update | time, adam = 1 |\n| --- | --- | --- |")
    for name, times in seconds.items():
        ratios = [a / b for a, b in zip(times, seconds["adam"], strict=True)]
        middle = statistics.median(ratios)
        print(
            f"| {name} | {statistics.median(times):.3f} "
            f"| {middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
        )


def measure(
    config: ExperimentConfig,
    batch: Batch,
    vocabulary: int,
    rounds: int,
    *,
    packed: bool,
) -> dict[str, list[float]]:
    """Returns the seconds of an update in each round, by variant."""
    steppers = {}
    for name, settings in VARIANTS.items():
        training = dataclasses.replace(config.training, **settings)
        own = dataclasses.replace(config, training=training)
        steppers[name] = build_product_step(own, vocabulary, packed=packed).stepper
        float(steppers[name].train(batch).losses.loss_sum)
    seconds: dict[str, list[float]] = {name: [] for name in steppers}
    for _ in range(rounds):
        for name, stepper in steppers.items():
            start = time.perf_counter()
            float(stepper.train(batch).losses.loss_sum)
            seconds[name].append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    main()
