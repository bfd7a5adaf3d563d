"""Comparison of training steps: runs ours and the peers in turn and prints a table.

    python -m benchmarks.training_step.run \\
        --ours=PYTHON --torch=PYTHON --keras_hub=PYTHON

Each PYTHON is the interpreter of an environment with the program's dependencies (see
benchmarks/README.md). A peer without an interpreter is left out. One process runs at a
time, so the machine should be idle. Ratios within one run are reliable; tokens per
second vary with the machine.
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
    """Runs all programs and prints the table."""
    parser = argparse.ArgumentParser()
    for name in ("ours", "torch", "keras_hub"):
        parser.add_argument(f"--{name}", help="Interpreter to use.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument(
        "--only", default="", help="Parts of names of rows, separated by |."
    )
    args = parser.parse_args()
    results: dict[str, list[dict]] = {}
    for round_number in range(args.rounds):
        for name, environment, program, settings in ROWS:
            python = getattr(args, environment)
            if python and any(part in name for part in args.only.split("|")):
                module = f"benchmarks.training_step.{program}"
                command = [python, "-m", module, *settings.split()]
                figures = run_program([*command, f"--steps={args.steps}"])
                results.setdefault(name, []).append(figures)
                print(f"round {round_number + 1}  {name}: {figures}", flush=True)
    print(table(results))


def run_program(command: list[str]) -> dict:
    """Runs a program and returns the JSON of its last line, or its error."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(results: dict[str, list[dict]]) -> str:
    """Returns a Markdown table of medians over the rounds."""
    lines = [
        f"{time.strftime('%Y-%m-%d')}, base, 64 x (32 + 32) tokens, medians\n",
        "| | target tokens/s | GFLOP/s | of the ceiling | first step s | peak GB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    ceilings: dict[str, float] = {}
    for name, rounds in results.items():
        good = [one for one in rounds if "error" not in one]
        if not good:
            lines.append(f"| {name} | {rounds[0]['error']} | | | | |")
            continue
        medians = {
            key: statistics.median(one[key] for one in good)
            for key in good[0]
            if key != "losses"
        }
        precision = name.split(", ")[1]
        if name.startswith("ceiling"):
            ceilings[precision] = medians["flops_per_second"]
            lines.append(
                f"| {name} | | {medians['flops_per_second'] / 1e9:.0f} | | | |"
            )
            continue
        flops = medians["tokens_per_second"] * flops_per_pair(32) / 32
        ceiling = ceilings.get(precision)
        fraction = f"{flops / ceiling:.0%}" if ceiling else ""
        lines.append(
            f"| {name} | {medians['tokens_per_second']:.0f} | {flops / 1e9:.0f} | "
            f"{fraction} | {medians['first_step_seconds']:.0f} | "
            f"{medians['peak_gigabytes']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
