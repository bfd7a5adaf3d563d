"""Speed of the written training step on any device of JAX.

    python -m benchmarks.gpu.run --program=DIR --steps=20

Needs JAX, NumPy and this folder of the project, but not TensorFlow. The steps train:
each passes its new weights, moments and counts to the next. Prints a table, and then
all figures as one line of JSON.
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

from benchmarks.gpu.ceiling import product_ceiling
from benchmarks.gpu.kernels import kernel_times
from benchmarks.gpu.manifest import (
    BATCH_FILE,
    INITIAL_FILE,
    PROGRAM_FILE,
    Argument,
    Manifest,
    load_manifest,
)
from benchmarks.gpu.executable import Executable, peak_bytes


class Trainer:
    """Program with the state that it trains.

    Args:
        executable: The compiled program.
        manifest: Description of the program.
        arguments: Arguments of the first step, in order, on the device.
    """

    def __init__(
        self, executable: Executable, manifest: Manifest, arguments: list[jax.Array]
    ):
        self._executable = executable
        self._results = manifest.results
        self._arguments = arguments

    def step(self) -> dict[str, jax.Array]:
        """Starts an update and returns its sums by name, computed asynchronously."""
        sums = {}
        results = self._executable(self._arguments)
        for result, value in zip(self._results, results, strict=True):
            if result.replaces is None:
                sums[result.name] = value
            else:
                self._arguments[result.replaces] = value
        return sums

    def wait(self) -> None:
        """Waits for the end of the last update."""
        jax.block_until_ready(self._arguments)


def main(argv: Sequence[str] | None = None) -> None:
    """Times one program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="Seed of random weights.")
    parser.add_argument("--platform", help="cpu, gpu or tpu. Default: JAX's choice.")
    parser.add_argument(
        "--full_float32",
        action="store_true",
        help="Multiply float32 in full, not in TensorFloat-32 as XLA does on GPUs.",
    )
    parser.add_argument(
        "--profile", action="store_true", help="Measure the time by kernel."
    )
    args = parser.parse_args(argv)
    manifest = load_manifest(args.program)
    device = jax.devices(args.platform)[0]
    jax.config.update("jax_default_device", device)
    figures = {
        "device": device.device_kind,
        "jax": jax.__version__,
        "program": f"{manifest.config}, {manifest.precision}, "
        f"{manifest.rows} x ({manifest.source_length} + {manifest.target_length})",
        "commit": manifest.commit,
        "full_float32": args.full_float32,
    }
    start = time.perf_counter()
    text = (args.program / PROGRAM_FILE).read_text(encoding="utf-8")
    if args.full_float32:
        default_text = text
        text = default_text.replace("[DEFAULT, DEFAULT]", "[HIGHEST, HIGHEST]")
        if text == default_text:
            raise SystemExit(f"{args.program}: no product says its precision.")
        jax.config.update("jax_default_matmul_precision", "highest")
    executable = Executable(text, device)
    figures["compile_seconds"] = time.perf_counter() - start
    arguments = make_first_arguments(manifest, args.program, args.seed)
    trainer = Trainer(executable, manifest, arguments)
    del arguments
    figures |= time_steps(trainer, args.steps)
    planned = executable.planned_bytes()
    figures["peak_gigabytes"] = (peak_bytes(device) or planned) / 1e9
    figures["planned_gigabytes"] = planned / 1e9
    tokens = manifest.rows * manifest.target_length
    ceiling = product_ceiling(manifest.sizes, tokens, manifest.precision)
    figures |= compute_rates(figures, manifest, ceiling)
    if args.profile:
        figures["profile"] = profile_steps(trainer)
    print(table(figures))
    print(json.dumps(figures))


def make_first_arguments(
    manifest: Manifest, folder: Path, seed: int
) -> list[jax.Array]:
    """Returns the first step's arguments: the batch, and stored or random values."""
    batch = np.load(folder / BATCH_FILE)
    path = folder / INITIAL_FILE
    initial = np.load(path) if path.is_file() else None
    key = jax.random.key(seed)
    arguments = []
    for index, argument in enumerate(manifest.arguments):
        if not argument.is_state:
            arguments.append(jax.device_put(batch[argument.name]))
        elif initial is not None:
            arguments.append(jax.device_put(initial[argument.name]))
        else:
            arguments.append(draw_value(argument, jax.random.fold_in(key, index)))
    return arguments


def draw_value(argument: Argument, key: jax.Array) -> jax.Array:
    """Returns a random initial value of a variable, made on the device."""
    if argument.std == 0.0:
        return jax.numpy.full(argument.shape, argument.mean, argument.dtype)
    values = jax.random.normal(key, argument.shape, argument.dtype)
    return argument.mean + argument.std * values


def time_steps(trainer: Trainer, steps: int) -> dict[str, Any]:
    """Times a first step, `steps` more, then `steps` without waiting for each."""
    all_sums, seconds = [], []
    for _ in range(steps + 1):
        start = time.perf_counter()
        sums = trainer.step()
        trainer.wait()
        seconds.append(time.perf_counter() - start)
        all_sums.append({name: float(value) for name, value in sums.items()})
    start = time.perf_counter()
    for _ in range(steps):
        trainer.step()
    trainer.wait()
    return {
        "first_step_seconds": seconds[0],
        "step_seconds": statistics.median(seconds[1:]),
        "best_step_seconds": min(seconds[1:]),
        "unwaited_step_seconds": (time.perf_counter() - start) / steps,
        "losses": [sums["loss_sum"] / sums["token_count"] for sums in all_sums],
        "gradient_norms": [sums["gradient_norm"] for sums in all_sums],
    }


def compute_rates(
    figures: dict[str, Any], manifest: Manifest, ceiling: float
) -> dict[str, float]:
    """Returns the rates of the median step, and its fraction of a ceiling in FLOP/s."""
    seconds = figures["step_seconds"]
    reached = manifest.flops_per_step / seconds
    return {
        "target_tokens_per_second": manifest.rows * manifest.target_length / seconds,
        "teraflops_per_second": reached / 1e12,
        "ceiling_teraflops_per_second": ceiling / 1e12,
        "share_of_ceiling": reached / ceiling,
    }


def profile_steps(trainer: Trainer, steps: int = 3) -> dict[str, Any]:
    """Returns milliseconds per step by kind of kernel and of the 20 longest kernels."""

    def run() -> None:
        for _ in range(steps):
            trainer.step()
        trainer.wait()

    kinds, names = kernel_times(run)
    return {
        "kinds_ms": {
            name: 1e3 * seconds / steps for name, seconds in kinds.most_common()
        },
        "kernels_ms": {
            name: 1e3 * seconds / steps for name, seconds in names.most_common(20)
        },
    }


def table(figures: dict[str, Any]) -> str:
    """Returns the figures as a Markdown table."""
    rows = [
        (
            "program",
            f"{figures['program']}"
            f"{', in full' * figures['full_float32']}, commit {figures['commit']}",
        ),
        ("device", f"{figures['device']}, jax {figures['jax']}"),
        ("compile", f"{figures['compile_seconds']:.1f} s"),
        (
            "step, median (best; unwaited)",
            f"{1e3 * figures['step_seconds']:.1f} ms "
            f"({1e3 * figures['best_step_seconds']:.1f}; "
            f"{1e3 * figures['unwaited_step_seconds']:.1f})",
        ),
        ("target tokens/s", f"{figures['target_tokens_per_second']:,.0f}"),
        (
            "TFLOP/s",
            f"{figures['teraflops_per_second']:.3g} of "
            f"{figures['ceiling_teraflops_per_second']:.3g}, "
            f"{figures['share_of_ceiling']:.0%}",
        ),
        (
            "memory, peak (planned)",
            f"{figures['peak_gigabytes']:.2f} GB ({figures['planned_gigabytes']:.2f})",
        ),
        ("loss per token", " ".join(f"{loss:.4f}" for loss in figures["losses"])),
    ]
    for part in ("kinds_ms", "kernels_ms"):
        for name, milliseconds in figures.get("profile", {}).get(part, {}).items():
            rows.append((f"{part}: {name[:60]}", f"{milliseconds:.3f} ms"))
    lines = ["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
