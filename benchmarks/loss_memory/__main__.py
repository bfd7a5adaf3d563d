"""Peak memory of the loss over a large vocabulary: in chunks, and all at once.

    python -m benchmarks.loss_memory
    python -m benchmarks.loss_memory --step

Starts a process for each way, and one that does nothing but import, whose memory is
taken off. Without `--step` it is the loss alone and its gradient, by hidden states and
embeddings; with it the product's whole training step of base, Adam included, in which
the loss is exchanged. Every way must find the same losses and gradients.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys

WAYS = ("chunks", "at_once", "one_hot")
# How far apart two ways may round, relatively.
TOLERANCE = 1e-4


def main() -> None:
    """Measures all ways, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--step", action="store_true", help="The whole step.")
    parser.add_argument("--config", default="base", help="Of the step: in configs/.")
    parser.add_argument("--words", type=int, default=37_000)
    parser.add_argument("--tokens", type=int, default=8192, help="Of either side.")
    parser.add_argument("--steps", type=int, default=2, help="To time, after one.")
    given = parser.parse_args()
    logits = 4e-9 * given.tokens * given.words
    print(f"{given.tokens:,} tokens, {given.words:,} words, logits {logits:.2f} GB\n")
    base = measured("nothing", given)["peak_bytes"]
    print("| | peak above importing, GB | seconds |\n| --- | --- | --- |")
    found = {}
    for way in WAYS:
        found[way] = measured(way, given)
        peak = (found[way]["peak_bytes"] - base) / 1e9
        seconds = statistics.median(found[way]["seconds"])
        print(f"| {way} | {peak:.2f} | {seconds:.2f} |", flush=True)
    check_same(found)


def measured(way: str, given: argparse.Namespace) -> dict:
    """Returns what a process of its own says of one way.

    Raises:
        SystemExit: If that process fails; it says why.
    """
    program = "step" if given.step else "alone"
    command = [sys.executable, "-m", f"benchmarks.loss_memory.{program}", way]
    command += [
        f"--{name}={getattr(given, name)}"
        for name in ("config", "words", "tokens", "steps")
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def check_same(found: dict[str, dict]) -> None:
    """Compares losses and gradient norms of all ways with those of the first.

    Raises:
        SystemExit: If some lie apart.
    """
    (first, expected), *others = found.items()
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
