"""CPU time of programs until their first result, and memory of a training step.

    python -m benchmarks.start --model_dir=runs/tiny --checkouts ../old .
    python -m benchmarks.start --stages=base --rows=64 --length=32

The first starts, in turn, Python with the imports that no program can avoid,
`translate` of one line, `serve` until its first answer, and `train` of
configs/tiny.flags until its first update, from each checkout. It prints a Markdown
table of medians, and of what the programs use beyond the imports.

The second prints CPU time and memory of this process after each stage of a training
step: imports, model and optimizer, compilation, updates.
"""

import argparse
import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.server_process import cpu_seconds, start_python, started_server

TEXT = "The old teacher gave the child three red apples."
IMPORTS = "import tensorflow, tensorflow_text"
PROGRAMS = ("imports", "translate", "serve", "train")


def main(argv: Sequence[str] | None = None) -> None:
    """Measures what the flags say, and prints it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model_dir", type=Path, help="A run with an export.")
    parser.add_argument("--checkouts", type=Path, nargs="*", default=[Path(".")])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stages", help="Flagfile in configs/ of the step.")
    parser.add_argument("--vocabulary", type=int, default=37_000)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    given = parser.parse_args(argv)
    if given.stages:
        print("| after | CPU s | memory, GB | peak, GB |\n| --- | --- | --- | --- |")
        for stage in _stages(given.stages, given.vocabulary, given.rows, given.length):
            memory = f"{_gigabytes('VmRSS'):.2f} | {_gigabytes('VmHWM'):.2f}"
            print(f"| {stage} | {_cpu_seconds():.1f} | {memory} |", flush=True)
        return
    run, checkouts = given.model_dir.resolve(), [x.resolve() for x in given.checkouts]
    seconds: dict[tuple[Path, str], list[float]] = {}
    for _ in range(given.rounds):
        for checkout in checkouts:
            with contextlib.chdir(checkout):
                for name in PROGRAMS:
                    used = _measure(name, run)
                    seconds.setdefault((checkout, name), []).append(used)
    print("| checkout | program | CPU s | beyond the imports |")
    print("| --- | --- | --- | --- |")
    for (checkout, name), times in seconds.items():
        imports = seconds[checkout, "imports"]
        beyond = [a - b for a, b in zip(times, imports, strict=True)]
        print(
            f"| {checkout.name} | {name} | {statistics.median(times):.2f} "
            f"| {statistics.median(beyond):.2f} "
            f"({min(beyond):.2f} to {max(beyond):.2f}) |"
        )


def _measure(name: str, run: Path) -> float:
    """Returns the CPU seconds of a program, until its first result."""
    if name == "serve":
        with started_server(run / "export") as server:
            _run("-m", "t2t_keras.client", f"--server={server.address}")
            return server.cpu_seconds()
    if name == "train":
        return _train_until_first_update()
    before = _cpu_seconds(resource.RUSAGE_CHILDREN)
    if name == "translate":
        _run("-m", "t2t_keras.translate", f"--model_dir={run}")
    else:
        _run("-c", IMPORTS)
    return _cpu_seconds(resource.RUSAGE_CHILDREN) - before


def _train_until_first_update() -> float:
    """Returns the CPU seconds of a new run of configs/tiny.flags."""
    flags = ["--flagfile=configs/tiny.flags", "--train_steps=1000"]
    with tempfile.TemporaryDirectory() as folder:
        process = start_python(
            *("-m", "t2t_keras.train", *flags, f"--model_dir={folder}/run"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            with process.stdout or contextlib.nullcontext(()) as output:
                if any(line.startswith("step 1/") for line in output):
                    return cpu_seconds(process)
        finally:
            process.kill()
            process.wait()
    raise RuntimeError("the run ended before its first update")


def _run(*arguments: str) -> None:
    """Runs Python, with a line of text as its input."""
    subprocess.run(
        [sys.executable, *arguments],
        input=f"{TEXT}\n",
        text=True,
        check=True,
        capture_output=True,
    )


def _stages(name: str, vocabulary: int, rows: int, length: int) -> Iterator[str]:
    """Runs the stages of a training step; yields the name of each after it."""
    yield "start of Python"
    from benchmarks import product_step

    yield "imports"
    step = product_step.build_product_step(product_step.load_config(name), vocabulary)
    yield "model and optimizer"
    batch = product_step.make_synthetic_batch(vocabulary, rows, length, length)
    step.stepper.compile_step(batch)
    yield "compilation and an update of padding"
    for number in (1, 2):
        float(step.stepper.train(batch).losses.loss_sum)
        yield f"update {number}"


def _cpu_seconds(who: int = resource.RUSAGE_SELF) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _gigabytes(field: str) -> float:
    """Returns a value of /proc/self/status, which is in units of 1,024 bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{field}:")]
    return int(line.split()[1]) * 1024 / 1e9


if __name__ == "__main__":
    main()
