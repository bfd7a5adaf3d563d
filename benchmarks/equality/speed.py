"""Speed of two checkouts: training steps and beam searches of the base model.

    git worktree add ../old COMMIT
    python -m benchmarks.equality.speed --old=../old --new=.

For each case, three processes compile their programs and then run in turn: old, new,
and the old checkout a second time. The ratio of new to old is the median over the
rounds. The ratio of the two old processes shows the noise of the machine. Needs an idle
machine, 8 GB of memory and half an hour.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, cast

# Repeats the work of a benchmark program for each input line and prints the seconds.
_CHILD = """
import importlib, sys, time
program, repetitions, *arguments = sys.argv[1:]
sys.argv = [program, *arguments]
def serve(work):
    work()
    work()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(repetitions)):
            work()
        print(time.perf_counter() - start, flush=True)
def measure(translate, args):
    size = int(args.batch)
    batch = measured.sentences(size)
    serve(lambda: translate(batch))
module = importlib.import_module(program)
measured = module.measured
measured.report = lambda step, tokens, steps: serve(step)
measured.measure = measure
module.main()
"""
_STEP, _SEARCH = "benchmarks.training_step.ours", "benchmarks.decoding.ours"
# Program, its arguments, and repetitions per round.
CASES: Mapping[str, tuple[str, Sequence[str], int]] = MappingProxyType(
    {
        "update, 64 x (32+32), float32, XLA": (_STEP, ["--xla=on"], 2),
        "update, 64 x (32+32), bfloat16": (
            _STEP,
            ["--xla=off", "--precision=bfloat16"],
            2,
        ),
        "search, batch 1, float32": (_SEARCH, ["--batch=1"], 20),
        "search, batch 32, float32": (_SEARCH, ["--batch=32"], 5),
    }
)


class Worker:
    """Process of a checkout that has compiled the program of a case.

    Args:
        checkout: Folder of the checkout.
        case: Key of `CASES`.
    """

    def __init__(self, checkout: Path, case: str):
        program, arguments, repetitions = CASES[case]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, program, str(repetitions), *arguments],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._read_line()

    def time_once(self) -> float:
        """Runs one round and returns its seconds."""
        cast(IO[bytes], self._process.stdin).write(b"go\n")
        cast(IO[bytes], self._process.stdin).flush()
        return float(self._read_line())

    def close(self) -> None:
        """Ends the process, which removes its temporary files."""
        self._process.communicate()

    def _read_line(self) -> bytes:
        line = cast(IO[bytes], self._process.stdout).readline()
        if not line:
            self._process.communicate()
            status = self._process.returncode
            raise RuntimeError(f"A benchmark ended with status {status}.")
        return line


def compare(old: Path, new: Path, case: str, rounds: int) -> str:
    """Returns a case's row of the table: seconds, and ratios with their range."""
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(contextlib.closing(Worker(checkout, case)))
            for checkout in (old, new, old)
        ]
        seconds = [[each.time_once() for each in workers] for _ in range(rounds)]
    ratios = [before / after for before, after, _ in seconds]
    noise = [before / again for before, _, again in seconds]
    medians = [statistics.median(column) for column in zip(*seconds, strict=True)]
    repetitions = CASES[case][2]
    return (
        f"| {case} | {medians[0] / repetitions:.3f} | {medians[1] / repetitions:.3f} "
        f"| {describe_ratios(ratios)} | {describe_ratios(noise)} |"
    )


def describe_ratios(ratios: Sequence[float]) -> str:
    """Returns the median and the range as text."""
    median = statistics.median(ratios)
    return f"{median:.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", type=Path, required=True, help="Old checkout.")
    parser.add_argument("--new", type=Path, required=True, help="New checkout.")
    parser.add_argument(
        "--rounds", type=int, default=5, help="Rounds per case. Default: 5."
    )
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    args = parser.parse_args(argv)
    print("| case | old, s | new, s | speed new/old (range) | old/old (range) |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for case in args.cases:
        print(compare(args.old, args.new, case, args.rounds), flush=True)


if __name__ == "__main__":
    main()
