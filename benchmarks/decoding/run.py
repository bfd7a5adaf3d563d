"""Comparison of beam searches: runs ours and the peers in turn and prints a table.

    python -m benchmarks.decoding.run --ours=PYTHON --torch=PYTHON --keras_hub=PYTHON

Each PYTHON is the interpreter of an environment with the program's dependencies. A peer
without an interpreter is left out. `--ours` needs CTranslate2 in addition to this
project. One process runs at a time, so the machine should be idle. Ratios within one
run are reliable; tokens per second vary with the machine.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).parents[2]
BATCHES = (1, 8, 32, 64)
# Name, environment, program, settings. "1 x 2" is one batch at a time on two threads,
# "2 x 1" two batches at a time on one thread each, "1 x 1" one batch on one thread.
TWO, ONE, REAL = "--at_once=2", "--threads=1", "--real_lengths"
ROWS = (
    ("ours, float32, 1 x 1", "ours", "ours", ONE),
    ("ours, float32, 1 x 2", "ours", "ours", ""),
    ("ours, float32, 2 x 1", "ours", "ours", TWO),
    ("ours, float32, XLA, 1 x 2", "ours", "ours", "--xla=on"),
    ("ours, float32, XLA, 2 x 1", "ours", "ours", f"--xla=on {TWO}"),
    ("ours, bfloat16, 1 x 2", "ours", "ours", "--precision=bfloat16"),
    ("ours, bfloat16, 2 x 1", "ours", "ours", f"--precision=bfloat16 {TWO}"),
    ("ours, bfloat16, 1 x 1", "ours", "ours", f"--precision=bfloat16 {ONE}"),
    ("ours, int8, 2 x 1", "ours", "ours", f"--precision=int8 {TWO}"),
    ("ours, int8, 1 x 1", "ours", "ours", f"--precision=int8 {ONE}"),
    ("ours, float32, 12 + 1 layers, 1 x 2", "ours", "ours", "--layers=12,1"),
    ("ours, float32, real lengths, 1 x 2", "ours", "ours", REAL),
    ("ours, float32, real lengths, 2 x 1", "ours", "ours", f"{REAL} {TWO}"),
    ("CTranslate2, float32, 1 x 1", "ours", "ctranslate2_search", ONE),
    ("CTranslate2, float32, 1 x 2", "ours", "ctranslate2_search", ""),
    ("CTranslate2, float32, 2 x 1", "ours", "ctranslate2_search", TWO),
    ("CTranslate2, int8, 1 x 2", "ours", "ctranslate2_search", "--quantization=int8"),
    (
        "CTranslate2, int8, 2 x 1",
        "ours",
        "ctranslate2_search",
        f"--quantization=int8 {TWO}",
    ),
    ("MarianMT, float32", "torch", "marian", ""),
    ("MarianMT, bfloat16", "torch", "marian", "--precision=bfloat16"),
    ("keras-hub, float32", "keras_hub", "keras_hub_search", "--xla=off"),
    ("keras-hub, float32, XLA", "keras_hub", "keras_hub_search", "--xla=on"),
)
REFERENCE = "CTranslate2, float32, 1 x 2"


def main() -> None:
    """Runs all programs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("ours", "torch", "keras_hub"):
        parser.add_argument(f"--{name}", help="Interpreter to use.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--batch", default=",".join(map(str, BATCHES)))
    parser.add_argument(
        "--only", default="", help="Parts of names of rows, separated by |."
    )
    parser.add_argument("--model", default="runs/decoding_benchmark")
    args = parser.parse_args()
    module = "benchmarks.decoding.write"
    command = [args.ours, "-m", module, f"--model={args.model}"]
    subprocess.run(command, check=True, cwd=ROOT)
    settings = [
        f"--{name}={getattr(args, name)}" for name in ("batch", "sentences", "model")
    ]
    results: dict[str, list[dict]] = {}
    for round_number in range(args.rounds):
        for name, environment, program, flags in ROWS:
            python = getattr(args, environment)
            if python and any(part in name for part in args.only.split("|")):
                command = [python, "-m", f"benchmarks.decoding.{program}"]
                figures = run_program(
                    [*command, "--rounds=1", *settings, *flags.split()]
                )
                results.setdefault(name, []).append(figures)
                print(f"round {round_number + 1}  {name}: {figures}", flush=True)
    print(table(results, [int(size) for size in args.batch.split(",")]))


def run_program(command: list[str]) -> dict:
    """Runs a program and returns the JSON of its last line, or its error."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(results: dict[str, list[dict]], sizes: list[int]) -> str:
    """Returns a Markdown table of medians over the rounds."""
    heads = [f"batch {size}" for size in sizes]
    columns = ["", *heads, "p50 ms", "p95 ms", "peak GB", "same output"]
    lines = [
        f"{time.strftime('%Y-%m-%d')} at {commit()}: {machine()}. Base, beam 4, output "
        "tokens/s, medians over rounds; latency of one sentence at batch 1\n",
        f"| {' | '.join(columns)} |",
        f"|{' --- |' * len(columns)}",
    ]
    expected = first_digests(results.get(REFERENCE, []))
    for name, rounds in results.items():
        good = [one for one in rounds if "error" not in one]
        if not good:
            lines.append(f"| {name} | {rounds[0]['error']} |")
            continue
        cells = [
            f"{median(good, str(size), 'tokens_per_second'):.0f}" for size in sizes
        ]
        cells += [
            f"{median(good, '1', key):.0f}" if 1 in sizes else ""
            for key in ("p50_ms", "p95_ms")
        ]
        cells.append(f"{max(one['peak_gigabytes'] for one in good):.1f}")
        same = sum(a == b for a, b in zip(first_digests(good), expected, strict=False))
        # Other sentences or another model than those of the reference.
        other = "real" in name or "layers" in name
        cells.append("" if other else f"{same} of {len(expected)}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def first_digests(results: list[dict]) -> list[int]:
    """Returns digests of the first translations, at the largest batch size."""
    good = [one for one in results if "error" not in one]
    return list(good[0]["batches"].values())[-1]["first"] if good else []


def median(results: list[dict], size: str, key: str) -> float:
    """Returns the median over rounds of a figure at a batch size."""
    return statistics.median(one["batches"][size][key] for one in results)


def commit() -> str:
    """Returns the short name of the commit that is checked out."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip() or "no commit"


def machine() -> str:
    """Returns the number of cores and the name of the processor."""
    model = platform.processor() or platform.machine()
    info = pathlib.Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores, {model}"


if __name__ == "__main__":
    main()
