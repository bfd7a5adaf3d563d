"""Runs ours and the peers in turn, several rounds, and prints a table.

    python -m benchmarks.decoding.run --ours=PYTHON --torch=PYTHON --keras_hub=PYTHON

Each PYTHON is an interpreter of an environment that has what the program needs; a peer
without one is left out. `--ours` must have CTranslate2 besides this project. One
process runs at a time, so give it an idle machine. Ratios within one run can be
trusted; tokens per second drift with the machine.
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
    """Runs everything and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("ours", "torch", "keras_hub"):
        parser.add_argument(f"--{name}", help="An interpreter.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--batch", default=",".join(map(str, BATCHES)))
    parser.add_argument("--only", default="", help="Parts of rows' names, by |.")
    parser.add_argument("--model", default="runs/decoding_benchmark")
    given = parser.parse_args()
    module = "benchmarks.decoding.write"
    command = [given.ours, "-m", module, f"--model={given.model}"]
    subprocess.run(command, check=True, cwd=ROOT)
    settings = [
        f"--{name}={getattr(given, name)}" for name in ("batch", "sentences", "model")
    ]
    results: dict[str, list[dict]] = {}
    for round_number in range(given.rounds):
        for name, environment, program, own in ROWS:
            python = getattr(given, environment)
            if python and any(part in name for part in given.only.split("|")):
                command = [python, "-m", f"benchmarks.decoding.{program}"]
                found = measured([*command, "--rounds=1", *settings, *own.split()])
                results.setdefault(name, []).append(found)
                print(f"round {round_number + 1}  {name}: {found}", flush=True)
    print(table(results, [int(size) for size in given.batch.split(",")]))


def measured(command: list[str]) -> dict:
    """Runs a program; returns what its last line says."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(results: dict[str, list[dict]], sizes: list[int]) -> str:
    """Returns a Markdown table, medians over the rounds."""
    heads = [f"batch {size}" for size in sizes]
    columns = ["", *heads, "p50 ms", "p95 ms", "peak GB", "same output"]
    lines = [
        f"{time.strftime('%Y-%m-%d')} at {commit()}: {machine()}. Base, beam 4, output "
        "tokens/s, medians over rounds; latency of one sentence at batch 1\n",
        f"| {' | '.join(columns)} |",
        f"|{' --- |' * len(columns)}",
    ]
    expected = first_found(results.get(REFERENCE, []))
    for name, found in results.items():
        good = [one for one in found if "error" not in one]
        if not good:
            lines.append(f"| {name} | {found[0]['error']} |")
            continue
        cells = [
            f"{median(good, str(size), 'tokens_per_second'):.0f}" for size in sizes
        ]
        cells += [
            f"{median(good, '1', key):.0f}" if 1 in sizes else ""
            for key in ("p50_ms", "p95_ms")
        ]
        cells.append(f"{max(one['peak_gigabytes'] for one in good):.1f}")
        same = sum(a == b for a, b in zip(first_found(good), expected, strict=False))
        # Other sentences are other sentences.
        cells.append("" if "real" in name else f"{same} of {len(expected)}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def first_found(results: list[dict]) -> list[int]:
    """Returns what the first sentences became, at the largest batch."""
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
    """Returns the processor and how many cores there are."""
    model = platform.processor() or platform.machine()
    info = pathlib.Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores, {model}"


if __name__ == "__main__":
    main()
