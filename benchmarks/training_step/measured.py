"""Command line, timing and output that the programs of this benchmark share.

Needs only the standard library, because each peer runs in its own environment.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable

# The base model. All programs train on one batch, with 32 source and 32 target tokens
# per row and no padding.
VOCABULARY, LAYERS, WIDTH, INNER, HEADS = 37_000, 6, 512, 2048, 8
DROPOUT, SMOOTHING = 0.1, 0.1


def arguments(**choices: list[str]) -> argparse.Namespace:
    """Returns the parsed command line: common flags and a program's own choices."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5)
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    return parser.parse_args()


def report(step: Callable[[], float], tokens: int, steps: int) -> None:
    """Times a first step and then `steps` more, and prints the figures as JSON.

    Args:
        step: Function that makes one update and returns its loss per token. It returns
            a number, so it waits for the end of the update.
        tokens: Target tokens per step.
        steps: Number of steps after the first.
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
    """Prints speed, peak memory and losses as JSON.

    Args:
        first_seconds: Duration of the first step, which may compile.
        seconds: Duration of each later step.
        tokens: Target tokens per step.
        losses: Loss per token of each step.
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
    """Returns the FLOPs of the matrix products of training on one pair of a length.

    The backward pass has twice the products of the forward pass: encoder, keys and
    values for the decoder, decoder, and the product with the vocabulary.
    """
    square, context = WIDTH * WIDTH, length * WIDTH
    encoder = LAYERS * (8 * square + 4 * context + 4 * WIDTH * INNER)
    cross_attention = LAYERS * 4 * square
    decoder = LAYERS * (12 * square + 8 * context + 4 * WIDTH * INNER)
    return 3.0 * length * (encoder + cross_attention + decoder + 2 * WIDTH * VOCABULARY)
