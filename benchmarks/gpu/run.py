"""Measures the programs of a folder, most important first, in the time that there is.

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
from benchmarks.gpu.results import OURS, RESULTS_FILE, Results, read

ROOT = Path(__file__).parents[2]
# With fewer seconds left, nothing is started.
LEAST_SECONDS = 15
# Most seconds for one process, so that a program that hangs does not cost all others.
MOST_SECONDS = 180
# Seconds after which a peer starts none of its other variants.
PEER_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Task:
    """Process that measures one program.

    Attributes:
        program: Name of the program.
        by: Who computes: this project, or a peer.
        module: Module to run.
        needs: Library that it imports.
        arguments: Arguments besides the program and the file of results.
    """

    program: str
    by: str
    module: str
    needs: str
    arguments: tuple[str, ...] = ()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one process after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--dir", type=Path, required=True, help="Folder of the programs.")
    add("--out", type=Path, required=True, help="Folder of the results.")
    add("--minutes", type=float, default=8.0)
    add("--runs", type=int, default=20, help="Timed runs of each program.")
    add("--peers", type=int, choices=(0, 1), default=1, help="Whether to measure them.")
    add("--only", type=re.compile, default="", help="Pattern of names to measure.")
    args = parser.parse_args(argv)
    end = time.monotonic() + 60 * args.minutes
    path = args.out / RESULTS_FILE
    done = {key for key, one in read([path]).items() if one.get("complete")}
    Results(path, program="", by="machine").add(**describe_machine())
    for task in list_tasks(args.dir, args.runs):
        left = end - time.monotonic()
        if not args.only.search(task.program) or (task.program, task.by) in done:
            continue
        if task.by != OURS and not args.peers:
            continue
        if left < LEAST_SECONDS:
            print(f"{task.program} by {task.by}: not measured, the time is up")
            continue
        run_task(task, args.dir, path, min(left, MOST_SECONDS))


def list_tasks(folder: Path, runs: int) -> Iterator[Task]:
    """Yields the processes to run, most important first: ours, then its peers."""
    names = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST_FILE}"))
    if not names:
        raise SystemExit(
            "--dir must be a folder that benchmarks.gpu.write wrote. "
            f"Received: {folder}"
        )
    for name in names:
        manifest = load_manifest(folder / name)
        number = (f"--runs={runs}",)
        yield Task(name, OURS, "benchmarks.gpu.measure", "jax", number)
        yield from list_peers(manifest, number)


def list_peers(manifest: Manifest, number: tuple[str, ...]) -> Iterator[Task]:
    """Yields the processes of peers that compute what a program does."""
    if manifest.packed or (manifest.kind == UPDATE and manifest.expected):
        return
    if manifest.kind == UPDATE:
        module, by, needs = "pytorch_step", "PyTorch", "torch"
    else:
        module, by, needs = "marian_search", "transformers", "transformers"
    arguments = (*number, f"--seconds={PEER_SECONDS}")
    yield Task(manifest.name, by, f"benchmarks.gpu.peers.{module}", needs, arguments)


def run_task(task: Task, folder: Path, path: Path, seconds: float) -> None:
    """Runs a process for some seconds at most, and says how it ended."""
    results = Results(path, program=task.program, by=task.by)
    title = f"{task.program} by {task.by}"
    if importlib.util.find_spec(task.needs) is None:
        print(f"{title}: {task.needs} is not installed", flush=True)
        return
    command = [sys.executable, "-m", task.module, f"--program={folder / task.program}"]
    command += [f"--out={path}", *task.arguments]
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
