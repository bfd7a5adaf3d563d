"""Runs ours and the peers in turn, several rounds, and prints a table of ratios.

    python -m benchmarks.training_step.run \\
        --ours=PYTHON --torch=PYTHON --keras_hub=PYTHON

Each PYTHON is an interpreter of an environment that has what the program needs (see
README.md beside this file's folder); a peer without one is left out. One process runs
at a time, so give it an idle machine. Ratios within one run can be trusted; tokens per
second drift with the machine.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import time

from benchmarks.training_step.measured import flops_per_pair

ROOT = pathlib.Path(__file__).parents[2]
ROWS = (
    ("ceiling, float32", "ours", "ceiling", "--precision=float32"),
    ("ours, float32, XLA", "ours", "ours", "--precision=float32 --xla=on"),
    ("ours, float32", "ours", "ours", "--precision=float32 --xla=off"),
    ("PyTorch, float32", "torch", "pytorch", "--mode=eager"),
    ("PyTorch compiled, float32", "torch", "pytorch", "--mode=compile"),
    ("keras-hub, float32, XLA", "keras_hub", "keras_hub_step", "--xla=on"),
    ("ceiling, bfloat16", "ours", "ceiling", "--precision=bfloat16"),
    ("ours, bfloat16", "ours", "ours", "--precision=bfloat16 --xla=off"),
    ("PyTorch, bfloat16", "torch", "pytorch", "--precision=bfloat16"),
    (
        "PyTorch compiled, bfloat16",
        "torch",
        "pytorch",
        "--precision=bfloat16 --mode=compile",
    ),
    (
        "keras-hub, bfloat16",
        "keras_hub",
        "keras_hub_step",
        "--precision=bfloat16 --xla=off",
    ),
)


def main() -> None:
    """Runs everything and prints the table."""
    parser = argparse.ArgumentParser()
    for name in ("ours", "torch", "keras_hub"):
        parser.add_argument(f"--{name}", help="An interpreter.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", default="", help="Parts of rows' names, by |.")
    given = parser.parse_args()
    results: dict[str, list[dict]] = {}
    for round_number in range(given.rounds):
        for name, environment, program, settings in ROWS:
            python = getattr(given, environment)
            if python and any(part in name for part in given.only.split("|")):
                module = f"benchmarks.training_step.{program}"
                command = [python, "-m", module, *settings.split()]
                found = measured([*command, f"--steps={given.steps}"])
                results.setdefault(name, []).append(found)
                print(f"round {round_number + 1}  {name}: {found}", flush=True)
    print(table(results))


def measured(command: list[str]) -> dict:
    """Runs a program; returns what its last line says."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(results: dict[str, list[dict]]) -> str:
    """Returns a Markdown table, medians over the rounds."""
    lines = [
        f"{time.strftime('%Y-%m-%d')}, base, 64 x (32 + 32) tokens, medians\n",
        "| | target tokens/s | GFLOP/s | of the ceiling | first step s | peak GB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    ceilings: dict[str, float] = {}
    for name, found in results.items():
        good = [one for one in found if "error" not in one]
        if not good:
            lines.append(f"| {name} | {found[0]['error']} | | | | |")
            continue
        middle = {
            key: statistics.median(one[key] for one in good)
            for key in good[0]
            if key != "losses"
        }
        precision = name.split(", ")[1]
        if name.startswith("ceiling"):
            ceilings[precision] = middle["flops_per_second"]
            lines.append(f"| {name} | | {middle['flops_per_second'] / 1e9:.0f} | | | |")
            continue
        flops = middle["tokens_per_second"] * flops_per_pair(32) / 32
        ceiling = ceilings.get(precision)
        share = f"{flops / ceiling:.0%}" if ceiling else ""
        lines.append(
            f"| {name} | {middle['tokens_per_second']:.0f} | {flops / 1e9:.0f} | "
            f"{share} | {middle['first_step_seconds']:.0f} | "
            f"{middle['peak_gigabytes']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
