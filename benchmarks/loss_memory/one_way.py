"""Command line, timing and output for measuring one implementation of the loss."""

import argparse
import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from benchmarks.loss_memory.naive import at_once, one_hot
from t2t_keras.training.losses import LossSums, label_smoothed_cross_entropy

SMOOTHING = 0.1
LOSSES: Mapping[str, Callable[..., LossSums]] = MappingProxyType(
    {"chunks": label_smoothed_cross_entropy, "at_once": at_once, "one_hot": one_hot}
)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Returns the parsed command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["nothing", *LOSSES])
    parser.add_argument("--config", default="base")
    parser.add_argument("--words", type=int, default=37_000)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=2)
    return parser.parse_args(argv)


def measure_steps(step: Callable[[], tuple[float, float]], steps: int) -> dict:
    """Returns losses, gradient norms, and the seconds of all steps but the first.

    Args:
        step: Function that makes a step and returns its loss and gradient norm.
        steps: Number of timed steps, after one that compiles.
    """
    seconds, results = [], []
    for _ in range(1 + steps):
        start = time.perf_counter()
        results.append(step())
        seconds.append(time.perf_counter() - start)
    losses, norms = zip(*results, strict=True)
    return {"losses": losses, "gradient_norms": norms, "seconds": seconds[1:]}


def print_figures(figures: dict) -> None:
    """Prints figures as JSON, with the peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"peak_bytes": peak, **figures}))
