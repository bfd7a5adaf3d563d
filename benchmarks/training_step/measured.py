"""What every program of this benchmark does alike: time steps, and print one line.

Standard library only: each peer runs in an environment of its own.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable

# Base, and one batch for all: rows of 32 source and 32 target tokens, none padded.
VOCABULARY, LAYERS, WIDTH, INNER, HEADS = 37_000, 6, 512, 2048, 8
DROPOUT, SMOOTHING = 0.1, 0.1


def arguments(**choices: list[str]) -> argparse.Namespace:
    """Returns the size of the batch, and what else a program may be told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5)
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    return parser.parse_args()


def report(step: Callable[[], float], tokens: int, steps: int) -> None:
    """Makes a first step, then some that are timed; prints what they took as JSON.

    Args:
        step: Makes one update and returns its loss per token, a number: it is over
            when the loss is known.
        tokens: Target tokens of a step.
        steps: How many to time.
    """
    start = time.perf_counter()
    losses = [step()]
    first_seconds = time.perf_counter() - start
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        losses.append(step())
        seconds.append(time.perf_counter() - start)
    print_figures(first_seconds, seconds, tokens, losses)


def print_figures(
    first_seconds: float, seconds: list[float], tokens: int, losses: list[float]
) -> None:
    """Prints what steps took as JSON.

    Args:
        first_seconds: Of the first step, which may compile.
        seconds: Of each step after it.
        tokens: Target tokens of a step.
        losses: Per token, of all steps.
    """
    figures = {
        "tokens_per_second": tokens / statistics.median(seconds),
        "first_step_seconds": first_seconds,
        "peak_gigabytes": _peak_bytes() / 1e9,
        "losses": [round(loss, 3) for loss in losses],
    }
    print(json.dumps(figures))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def flops_per_pair(length: int) -> float:
    """Returns the matrix products of training on one pair, padded to a length.

    Forward once and backward twice: encoder, keys and values for the decoder,
    decoder, and the product with the vocabulary.
    """
    square, context = WIDTH * WIDTH, length * WIDTH
    encoder = LAYERS * (8 * square + 4 * context + 4 * WIDTH * INNER)
    memory = LAYERS * 4 * square
    decoder = LAYERS * (12 * square + 8 * context + 4 * WIDTH * INNER)
    return 3.0 * length * (encoder + memory + decoder + 2 * WIDTH * VOCABULARY)
