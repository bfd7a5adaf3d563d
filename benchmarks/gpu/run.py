"""Measures the programs of a folder, most important first, in the time that there is.

Trainings of the folder run in between, by the order of their names, to their end.

    python -m benchmarks.gpu.run --dir=DIR --out=DIR2 --minutes=8

Needs JAX and NumPy, and of this project only the folder `benchmarks`. Peers that are
installed are measured beside ours, on the same card: PyTorch and transformers.

Each program is measured by a process of its own, which appends to DIR2/results.jsonl
what it knows as soon as it knows it. The same command continues: it leaves out what is
complete. Where the time is up, the process is killed.
"""

import argparse
import dataclasses
import datetime
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.manifest import MANIFEST_FILE, UPDATE, Manifest, load_manifest
from benchmarks.gpu.results import ATTENTION, OURS, RESULTS_FILE, Results, read
from benchmarks.gpu.training.folder import TRAINING_FILE

ROOT = Path(__file__).parents[2]
# With fewer seconds left, no program is measured.
LEAST_SECONDS = 15
# Most seconds for one process, so that a program that hangs does not cost all others.
MOST_SECONDS = 180
# Seconds after which a peer starts none of its other variants.
PEER_SECONDS = 60
# Least seconds of a training besides its updates, to compile and to write weights.
AROUND_TRAINING_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Task:
    """Process that measures one program, or trains by one.

    Attributes:
        program: Name of the program.
        by: Who computes: this project, or a peer.
        module: Module to run.
        needs: Library that it imports.
        arguments: Arguments of the module.
        least_seconds: With fewer seconds left, it is not started.
        most_seconds: Most seconds that it may take.
    """

    program: str
    by: str
    module: str
    needs: str
    arguments: tuple[str, ...]
    least_seconds: float = LEAST_SECONDS
    most_seconds: float = MOST_SECONDS


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one process after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--dir", type=Path, required=True, help="Folder of the programs.")
    add("--out", type=Path, required=True, help="Folder of the results.")
    add("--minutes", type=float, default=8.0)
    add("--runs", type=int, default=20, help="Timed runs of each program.")
    add("--peers", type=int, choices=(0, 1), default=1, help="Whether to measure them.")
    add("--training_seconds", type=float, default=90.0, help="Most of one training.")
    add("--only", type=re.compile, default="", help="Pattern of names to measure.")
    args = parser.parse_args(argv)
    end = time.monotonic() + 60 * args.minutes
    path = args.out / RESULTS_FILE
    done = {key for key, one in read([path]).items() if one.get("complete")}
    Results(path, program="", by="machine").add(**describe_machine())
    for task in list_tasks(args, path):
        left = max(0.0, end - time.monotonic())
        if not args.only.search(task.program) or (task.program, task.by) in done:
            continue
        if task.needs != "jax" and not args.peers:
            continue
        if left < task.least_seconds:
            print(f"{task.program} by {task.by}: not started, {left:.0f} s are left")
            continue
        run_task(task, path, min(left, task.most_seconds))


def list_tasks(args: argparse.Namespace, path: Path) -> Iterator[Task]:
    """Yields the processes to run, most important first: ours, then its peers.

    Args:
        args: Flags of this program.
        path: File of the results.
    """
    files = [*args.dir.glob(f"*/{MANIFEST_FILE}"), *args.dir.glob(f"*/{TRAINING_FILE}")]
    if not files:
        raise SystemExit(
            "--dir must be a folder that benchmarks.gpu.write wrote. "
            f"Received: {args.dir}"
        )
    last = []
    for file in sorted(files, key=lambda file: file.parent.name):
        name = file.parent.name
        if file.name == TRAINING_FILE:
            seconds = args.training_seconds
            yield Task(
                name,
                OURS,
                "benchmarks.gpu.training.run",
                "jax",
                (f"--dir={file.parent}", f"--out={args.out}", f"--seconds={seconds}"),
                least_seconds=seconds + AROUND_TRAINING_SECONDS,
                most_seconds=seconds + MOST_SECONDS,
            )
            continue
        arguments = f"--program={file.parent}", f"--out={path}", f"--runs={args.runs}"
        manifest = load_manifest(file.parent)
        yield Task(name, OURS, "benchmarks.gpu.measure", "jax", arguments)
        yield from list_peers(manifest, arguments)
        if manifest.kind == UPDATE and not (manifest.packed or manifest.expected):
            last.append(
                Task(name, ATTENTION, "benchmarks.gpu.attention", "jax", arguments)
            )
    yield from last


def list_peers(manifest: Manifest, arguments: tuple[str, ...]) -> Iterator[Task]:
    """Yields the processes of peers that compute what a program does."""
    if manifest.packed or (manifest.kind == UPDATE and manifest.expected):
        return
    if manifest.kind == UPDATE:
        module, by, needs = "pytorch_step", "PyTorch", "torch"
    else:
        module, by, needs = "marian_search", "transformers", "transformers"
    arguments += (f"--seconds={PEER_SECONDS}",)
    yield Task(manifest.name, by, f"benchmarks.gpu.peers.{module}", needs, arguments)


def run_task(task: Task, path: Path, seconds: float) -> None:
    """Runs a process for some seconds at most, and says how it ended."""
    results = Results(path, program=task.program, by=task.by)
    title = f"{task.program} by {task.by}"
    if importlib.util.find_spec(task.needs) is None:
        print(f"{title}: {task.needs} is not installed", flush=True)
        return
    command = [sys.executable, "-m", task.module, *task.arguments]
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            timeout=seconds,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        results.add(cut_after_seconds=seconds)
        print(f"{title}: cut after {seconds:.0f} s", flush=True)
        return
    if done.returncode:
        error = (done.stderr.strip().splitlines() or ["no message"])[-1][:500]
        results.add(error=error)
        print(f"{title}: {error}", flush=True)
        return
    results.add(complete=True)
    print(f"{title}: {time.monotonic() - start:.0f} s", flush=True)


def describe_machine() -> dict[str, Any]:
    """Returns the date, and what is known of the machine without using its card."""
    figures = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    if shutil.which("nvidia-smi"):
        fields = "name,driver_version,memory.total"
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        )
        figures["cards"] = done.stdout.strip().splitlines()
    return figures


if __name__ == "__main__":
    main()
