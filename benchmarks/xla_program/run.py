"""Runs a written training step on any device JAX has, and times it.

    python -m benchmarks.xla_program.run --program=DIR --steps=20

Needs JAX and NumPy, and nothing of this project but this folder: no TensorFlow. It
trains: each step's new weights, moments and counts go into the next. Prints a table,
and all of it as one line of JSON at the end.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.xla_program.device_ceiling import product_ceiling
from benchmarks.xla_program.kernels import kernel_times
from benchmarks.xla_program.manifest import (
    BATCH_FILE,
    INITIAL_FILE,
    PROGRAM_FILE,
    Argument,
    Manifest,
    load_manifest,
)
from benchmarks.xla_program.pjrt import Executable, peak_bytes


class Trainer:
    """A program with the state that it trains.

    Args:
        executable: The program.
        manifest: Its description.
        arguments: The first step's, in order, on the device.
    """

    def __init__(
        self, executable: Executable, manifest: Manifest, arguments: list[jax.Array]
    ):
        self._executable = executable
        self._results = manifest.results
        self._arguments = arguments

    def step(self) -> dict[str, jax.Array]:
        """Starts an update; returns its sums by name, to be waited for."""
        sums = {}
        results = self._executable(self._arguments)
        for result, value in zip(self._results, results, strict=True):
            if result.replaces is None:
                sums[result.name] = value
            else:
                self._arguments[result.replaces] = value
        return sums

    def wait(self) -> None:
        """Returns when the last update is made."""
        jax.block_until_ready(self._arguments)


def main(argv: Sequence[str] | None = None) -> None:
    """Times one program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="Of drawn weights.")
    parser.add_argument("--platform", help="cpu, gpu, tpu; JAX's default if not given.")
    parser.add_argument(
        "--full_float32",
        action="store_true",
        help="Multiply float32 in full, not in TensorFloat-32 as XLA does on GPUs.",
    )
    parser.add_argument("--profile", action="store_true", help="Where the time goes.")
    given = parser.parse_args(argv)
    manifest = load_manifest(given.program)
    device = jax.devices(given.platform)[0]
    jax.config.update("jax_default_device", device)
    found = {
        "device": device.device_kind,
        "jax": jax.__version__,
        "program": f"{manifest.config}, {manifest.precision}, "
        f"{manifest.rows} x ({manifest.source_length} + {manifest.target_length})",
        "commit": manifest.commit,
        "full_float32": given.full_float32,
    }
    begin = time.perf_counter()
    text = (given.program / PROGRAM_FILE).read_text(encoding="utf-8")
    if given.full_float32:
        written = text
        text = written.replace("[DEFAULT, DEFAULT]", "[HIGHEST, HIGHEST]")
        if text == written:
            raise SystemExit(f"{given.program}: no product says its precision.")
        jax.config.update("jax_default_matmul_precision", "highest")
    executable = Executable(text, device)
    found["compile_seconds"] = time.perf_counter() - begin
    arguments = first_arguments(manifest, given.program, given.seed)
    trainer = Trainer(executable, manifest, arguments)
    del arguments
    found |= timed(trainer, given.steps)
    planned = executable.planned_bytes()
    found["peak_gigabytes"] = (peak_bytes(device) or planned) / 1e9
    found["planned_gigabytes"] = planned / 1e9
    tokens = manifest.rows * manifest.target_length
    ceiling = product_ceiling(manifest.sizes, tokens, manifest.precision)
    found |= rates(found, manifest, ceiling)
    if given.profile:
        found["profile"] = profiled(trainer)
    print(table(found))
    print(json.dumps(found))


def first_arguments(manifest: Manifest, folder: Path, seed: int) -> list[jax.Array]:
    """Returns the first step's arguments: the batch, and values written or drawn."""
    batch = np.load(folder / BATCH_FILE)
    path = folder / INITIAL_FILE
    initial = np.load(path) if path.is_file() else None
    key = jax.random.key(seed)
    arguments = []
    for place, argument in enumerate(manifest.arguments):
        if not argument.is_state:
            arguments.append(jax.device_put(batch[argument.name]))
        elif initial is not None:
            arguments.append(jax.device_put(initial[argument.name]))
        else:
            arguments.append(drawn(argument, jax.random.fold_in(key, place)))
    return arguments


def drawn(argument: Argument, key: jax.Array) -> jax.Array:
    """Returns an initial value of a variable, made on the device."""
    if argument.std == 0.0:
        return jax.numpy.full(argument.shape, argument.mean, argument.dtype)
    values = jax.random.normal(key, argument.shape, argument.dtype)
    return argument.mean + argument.std * values


def timed(trainer: Trainer, steps: int) -> dict[str, Any]:
    """Makes steps, the first apart, each waited for; then as many without waiting."""
    all_sums, seconds = [], []
    for _ in range(steps + 1):
        begin = time.perf_counter()
        sums = trainer.step()
        trainer.wait()
        seconds.append(time.perf_counter() - begin)
        all_sums.append({name: float(value) for name, value in sums.items()})
    begin = time.perf_counter()
    for _ in range(steps):
        trainer.step()
    trainer.wait()
    return {
        "first_step_seconds": seconds[0],
        "step_seconds": statistics.median(seconds[1:]),
        "best_step_seconds": min(seconds[1:]),
        "unwaited_step_seconds": (time.perf_counter() - begin) / steps,
        "losses": [sums["loss_sum"] / sums["token_count"] for sums in all_sums],
        "gradient_norms": [sums["gradient_norm"] for sums in all_sums],
    }


def rates(
    found: dict[str, Any], manifest: Manifest, ceiling: float
) -> dict[str, float]:
    """Returns what the median step comes to, and its share of a ceiling in FLOP/s."""
    seconds = found["step_seconds"]
    reached = manifest.flops_per_step / seconds
    return {
        "target_tokens_per_second": manifest.rows * manifest.target_length / seconds,
        "teraflops_per_second": reached / 1e12,
        "ceiling_teraflops_per_second": ceiling / 1e12,
        "share_of_ceiling": reached / ceiling,
    }


def profiled(trainer: Trainer, steps: int = 3) -> dict[str, Any]:
    """Returns milliseconds a step by kind of kernel, and the twenty longest kernels."""

    def run() -> None:
        for _ in range(steps):
            trainer.step()
        trainer.wait()

    kinds, names = kernel_times(run)
    return {
        "kinds_ms": {name: 1e3 * took / steps for name, took in kinds.most_common()},
        "kernels_ms": {
            name: 1e3 * took / steps for name, took in names.most_common(20)
        },
    }


def table(found: dict[str, Any]) -> str:
    """Returns a Markdown table of what was found."""
    rows = [
        (
            "program",
            f"{found['program']}"
            f"{', in full' * found['full_float32']}, commit {found['commit']}",
        ),
        ("device", f"{found['device']}, jax {found['jax']}"),
        ("compile", f"{found['compile_seconds']:.1f} s"),
        (
            "step, median (best; unwaited)",
            f"{1e3 * found['step_seconds']:.1f} ms "
            f"({1e3 * found['best_step_seconds']:.1f}; "
            f"{1e3 * found['unwaited_step_seconds']:.1f})",
        ),
        ("target tokens/s", f"{found['target_tokens_per_second']:,.0f}"),
        (
            "TFLOP/s",
            f"{found['teraflops_per_second']:.3g} of "
            f"{found['ceiling_teraflops_per_second']:.3g}, "
            f"{found['share_of_ceiling']:.0%}",
        ),
        (
            "memory, peak (planned)",
            f"{found['peak_gigabytes']:.2f} GB ({found['planned_gigabytes']:.2f})",
        ),
        ("loss per token", " ".join(f"{loss:.4f}" for loss in found["losses"])),
    ]
    for part in ("kinds_ms", "kernels_ms"):
        for name, took in found.get("profile", {}).get(part, {}).items():
            rows.append((f"{part}: {name[:60]}", f"{took:.3f} ms"))
    lines = ["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
