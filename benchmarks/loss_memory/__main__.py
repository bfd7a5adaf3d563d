"""Peak memory of the loss over a large vocabulary: in chunks, and all at once.

    python -m benchmarks.loss_memory
    python -m benchmarks.loss_memory --step

Starts a process for each implementation of the loss. The memory of a process that only
imports is subtracted. Without `--step`, measures only the loss and its gradient with
respect to hidden states and embeddings. With `--step`, replaces the loss in the whole
training step of the base model, including Adam. All implementations must give the same
losses and gradients.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys

WAYS = ("chunks", "at_once", "one_hot")
# Largest relative difference between two implementations, which round differently.
TOLERANCE = 1e-4


def main() -> None:
    """Measures each implementation in its own process and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--step", action="store_true", help="Measure the whole step.")
    parser.add_argument(
        "--config", default="base", help="Flagfile in configs/, for --step."
    )
    parser.add_argument("--words", type=int, default=37_000)
    parser.add_argument(
        "--tokens", type=int, default=8192, help="Tokens per side of the batch."
    )
    parser.add_argument(
        "--steps", type=int, default=2, help="Timed steps, after a first one."
    )
    args = parser.parse_args()
    logits = 4e-9 * args.tokens * args.words
    print(f"{args.tokens:,} tokens, {args.words:,} words, logits {logits:.2f} GB\n")
    base = measure_in_process("nothing", args)["peak_bytes"]
    print("| | peak above importing, GB | seconds |\n| --- | --- | --- |")
    figures_by_way = {}
    for way in WAYS:
        figures_by_way[way] = measure_in_process(way, args)
        peak = (figures_by_way[way]["peak_bytes"] - base) / 1e9
        seconds = statistics.median(figures_by_way[way]["seconds"])
        print(f"| {way} | {peak:.2f} | {seconds:.2f} |", flush=True)
    check_same(figures_by_way)


def measure_in_process(way: str, args: argparse.Namespace) -> dict:
    """Returns the figures of one implementation, measured in a new process.

    Raises:
        SystemExit: If that process fails, with its error output.
    """
    program = "step" if args.step else "alone"
    command = [sys.executable, "-m", f"benchmarks.loss_memory.{program}", way]
    command += [
        f"--{name}={getattr(args, name)}"
        for name in ("config", "words", "tokens", "steps")
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def check_same(figures_by_way: dict[str, dict]) -> None:
    """Compares losses and gradient norms of all implementations with the first.

    Raises:
        SystemExit: If they differ by more than `TOLERANCE`.
    """
    (first, expected), *others = figures_by_way.items()
    for way, figures in others:
        for name in ("losses", "gradient_norms"):
            for ours, theirs in zip(expected[name], figures[name], strict=True):
                if not math.isclose(ours, theirs, rel_tol=TOLERANCE):
                    raise SystemExit(
                        f"{first} and {way} must have the same {name}. Received: "
                        f"{expected[name]} and {figures[name]}"
                    )


if __name__ == "__main__":
    main()
