"""Measures the programs of a folder, most important first, in the time that there is.

Trainings of the folder run in between, by the order of their names, to their end.

    python -m benchmarks.gpu.run --dir=DIR --out=DIR2 --minutes=8

Needs JAX and NumPy, and of this project only the folder `benchmarks`. Peers that are
installed are measured beside ours, on the same card: PyTorch and transformers.

Each program is measured by a process of its own, which appends to DIR2/results.jsonl
what it knows as soon as it knows it. Where the time is up, the process is killed. The
same command continues: it leaves out what is complete, and takes last what failed or
was cut. XLA keeps what it has tuned in the machine's folder for temporary files, so the
same program compiles faster later.
"""

import argparse
import dataclasses
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.manifest import (
    MANIFEST_FILE,
    UPDATE,
    Manifest,
    load_manifest,
    pattern,
)
from benchmarks.gpu.processes import run_process
from benchmarks.gpu.results import ATTENTION, OURS, RESULTS_FILE, Results, read
from benchmarks.gpu.training.folder import TRAINING_FILE

ROOT = Path(__file__).parents[2]
# With fewer seconds left, no program is measured.
LEAST_SECONDS = 15
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
        more_seconds: Seconds that it may take besides those of any program.
        tuned: Whether XLA times variants of kernels when it compiles.
    """

    program: str
    by: str
    module: str
    needs: str
    arguments: tuple[str, ...]
    least_seconds: float = LEAST_SECONDS
    more_seconds: float = 0.0
    tuned: bool = True


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one process after the other."""
    args = _parse(argv)
    end = time.monotonic() + 60 * args.minutes
    path = args.out / RESULTS_FILE
    known = read([path])
    machine = describe_machine()
    tasks = list(list_tasks(args, path))
    Results(path, program="", by="machine").add(**machine)
    # Last what failed or was cut before, and may do so again.
    for task in sorted(tasks, key=lambda task: "error" in _figures(known, task)):
        left = max(0.0, end - time.monotonic())
        title = f"{task.program} by {task.by}"
        if _figures(known, task).get("complete"):
            print(f"{title}: complete already", flush=True)
        elif importlib.util.find_spec(task.needs) is None:
            print(f"{title}: {task.needs} is not installed", flush=True)
        elif left < task.least_seconds:
            print(f"{title}: not started, {left:.0f} s are left", flush=True)
        else:
            seconds = min(left, args.most_seconds + task.more_seconds)
            run_task(task, path, seconds, has_gpu="cards" in machine)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--dir", type=Path, required=True, help="Folder of the programs.")
    add("--out", type=Path, required=True, help="Folder of the results.")
    add("--minutes", type=float, default=8.0)
    add("--runs", type=int, default=20, help="Timed runs of each program.")
    add("--peers", type=int, choices=(0, 1), default=1, help="Whether to measure them.")
    add("--only", type=pattern, default="", help="Pattern of names to measure.")
    # A program that hangs must not cost all others.
    add("--most_seconds", type=float, default=180.0, help="Most for one program.")
    add(
        "--peer_seconds",
        type=float,
        default=60.0,
        help="Seconds after which a peer starts none of its other variants.",
    )
    add("--training_seconds", type=float, default=90.0, help="Most of one training.")
    args = parser.parse_args(argv)
    # The processes run in the root of the project.
    args.dir, args.out = args.dir.resolve(), args.out.resolve()
    return args


def _figures(known: dict[tuple[str, str], dict[str, Any]], task: Task) -> dict:
    return known.get((task.program, task.by), {})


def list_tasks(args: argparse.Namespace, path: Path) -> Iterator[Task]:
    """Yields the processes to run, most important first: ours, then its peers.

    Args:
        args: Flags of this program.
        path: File of the results.

    Raises:
        SystemExit: If there is nothing to run.
    """
    files = [*args.dir.glob(f"*/{MANIFEST_FILE}"), *args.dir.glob(f"*/{TRAINING_FILE}")]
    files = [file for file in files if args.only.search(file.parent.name)]
    if not files:
        raise SystemExit(
            "--dir must be a folder that benchmarks.gpu.write wrote, with programs "
            f"whose names match --only. Received: --dir={args.dir} "
            f"--only={args.only.pattern}"
        )
    for file in sorted(files, key=lambda file: file.parent.name):
        if file.name == TRAINING_FILE:
            yield _training_task(args, file.parent)
            continue
        manifest = load_manifest(file.parent)
        arguments = f"--program={file.parent}", f"--out={path}"
        yield _measuring_task(args, manifest, arguments)
        if args.peers:
            yield from _list_peers(args, manifest, arguments)
        if manifest.kind == UPDATE and not (manifest.packed or manifest.is_check):
            module = "benchmarks.gpu.attention"
            yield Task(manifest.name, ATTENTION, module, "jax", arguments)


def _training_task(args: argparse.Namespace, folder: Path) -> Task:
    seconds = args.training_seconds
    return Task(
        folder.name,
        OURS,
        "benchmarks.gpu.training.run",
        "jax",
        (f"--dir={folder}", f"--out={args.out}", f"--seconds={seconds}"),
        least_seconds=seconds + AROUND_TRAINING_SECONDS,
        more_seconds=seconds,
    )


def _measuring_task(
    args: argparse.Namespace, manifest: Manifest, arguments: tuple[str, ...]
) -> Task:
    if manifest.is_check:
        # Nothing is tuned or profiled. TensorFloat-32 would hide a small fault.
        arguments += ("--runs=1", "--profile=0")
        if manifest.precision == "float32":
            arguments += ("--full_float32",)
    else:
        arguments += (f"--runs={args.runs}",)
    module = "benchmarks.gpu.measure"
    tuned = not manifest.is_check
    return Task(manifest.name, OURS, module, "jax", arguments, tuned=tuned)


def _list_peers(
    args: argparse.Namespace, manifest: Manifest, arguments: tuple[str, ...]
) -> Iterator[Task]:
    """Yields the processes of peers that compute what a program does."""
    if manifest.packed or manifest.is_check:
        return
    if manifest.kind == UPDATE:
        module, by, needs = "pytorch_step", "PyTorch", "torch"
    else:
        module, by, needs = "marian_search", "transformers", "transformers"
    arguments += (f"--runs={args.runs}", f"--seconds={args.peer_seconds}")
    yield Task(manifest.name, by, f"benchmarks.gpu.peers.{module}", needs, arguments)


def run_task(task: Task, path: Path, seconds: float, *, has_gpu: bool) -> None:
    """Runs a process for some seconds at most, and says how it ended.

    Args:
        task: The process.
        path: File of the results.
        seconds: Most seconds.
        has_gpu: Whether it must use a GPU. Libraries that find none would use the CPU.
    """
    results = Results(path, program=task.program, by=task.by)
    arguments = (*task.arguments, *["--platform=gpu"][: int(has_gpu)])
    command = [sys.executable, "-m", task.module, *arguments]
    start = time.monotonic()
    ended = run_process(command, ROOT, make_environment(task, has_gpu), seconds)
    if ended.status == 0:
        results.add(complete=True)
        outcome = f"{time.monotonic() - start:.0f} s"
    else:
        cut = ended.status is None
        outcome = f"cut after {seconds:.0f} s" if cut else ended.error
        results.add(error=outcome, log=ended.log[-4000:])
    print(f"{task.program} by {task.by}: {outcome}", flush=True)


def make_environment(task: Task, has_gpu: bool) -> dict[str, str]:
    """Returns the environment of a process, with XLA's flags."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    if has_gpu and not task.tuned:
        flags.append("--xla_gpu_autotune_level=0")
    elif has_gpu and importlib.util.find_spec("jax") is not None:
        name = f"xla_tuning-{importlib.metadata.version('jax')}-{os.getuid()}"
        folder = Path(tempfile.gettempdir()) / name
        folder.mkdir(exist_ok=True)
        # First, so that the user's choice wins.
        flags.insert(0, f"--xla_gpu_per_fusion_autotune_cache_dir={folder}")
    return {**os.environ, "XLA_FLAGS": " ".join(flags)}


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
        if done.returncode == 0:
            figures["cards"] = done.stdout.strip().splitlines()
    return figures


if __name__ == "__main__":
    main()
