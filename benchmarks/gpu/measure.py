"""Speed of one program on any device of JAX.

    python -m benchmarks.gpu.measure --program=DIR/NAME --out=FILE

Needs JAX, NumPy and this folder of the project, but not TensorFlow. Updates train: each
passes its new weights, moments and counts to the next. What is known is appended to
FILE as a JSON line at once.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.gpu.ceiling import product_ceiling
from benchmarks.gpu.executable import Executable, peak_bytes
from benchmarks.gpu.hlo import Module
from benchmarks.gpu.initial_values import draw_value
from benchmarks.gpu.kernel_kinds import KernelKinds
from benchmarks.gpu.kernels import time_kernels
from benchmarks.gpu.manifest import (
    INPUTS_FILE,
    UPDATE,
    Manifest,
    load_manifest,
    load_program_text,
)
from benchmarks.gpu.results import OURS, Results

# Dense FLOP/s of the matrix units by data sheet, float32 being TensorFloat-32.
DATA_SHEETS = (
    ("H100", {"bfloat16": 989e12, "float32": 495e12}),
    ("H200", {"bfloat16": 989e12, "float32": 495e12}),
    ("A100", {"bfloat16": 312e12, "float32": 156e12}),
)


class Runner:
    """Program with the state that it changes.

    Args:
        executable: The compiled program.
        manifest: Description of the program.
        arguments: Arguments of the first run, in order, on the device.
    """

    def __init__(
        self, executable: Executable, manifest: Manifest, arguments: list[jax.Array]
    ):
        self._executable = executable
        self._results = manifest.results
        self._arguments = arguments
        self._outputs: dict[str, jax.Array] = {}
        self._places = {one.name: i for i, one in enumerate(manifest.arguments)}
        self._states = [one.name for one in manifest.arguments if one.is_state]

    def run(self, given: Mapping[str, jax.Array] | None = None) -> dict[str, jax.Array]:
        """Starts a run and returns its outputs by name, computed asynchronously.

        Args:
            given: New values of arguments, by name. Default: none.
        """
        for name, value in (given or {}).items():
            self._arguments[self._places[name]] = value
        results = self._executable(self._arguments)
        self._outputs = {}
        for result, value in zip(self._results, results, strict=True):
            if result.replaces is None:
                self._outputs[result.name] = value
            else:
                self._arguments[result.replaces] = value
        return self._outputs

    def state(self) -> dict[str, jax.Array]:
        """Returns the variables by name, as the last run left them."""
        return {name: self._arguments[self._places[name]] for name in self._states}

    def wait(self) -> None:
        """Waits for the end of the last run."""
        jax.block_until_ready((self._arguments, self._outputs))


def main(argv: Sequence[str] | None = None) -> None:
    """Measures one program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--program", type=Path, required=True)
    add("--out", type=Path, required=True)
    add("--runs", type=int, default=20)
    add("--platform", help="cpu, gpu or tpu. Default: JAX's choice.")
    add("--full_float32", action="store_true", help="No TensorFloat-32 in products.")
    add("--profile", type=int, default=3, help="Number of runs to profile.")
    args = parser.parse_args(argv)
    # Counts are int64, which JAX would otherwise convert to int32.
    jax.config.update("jax_enable_x64", True)
    device = jax.devices(args.platform)[0]
    jax.config.update("jax_default_device", device)
    manifest = load_manifest(args.program)
    results = Results(args.out, program=manifest.name, by=OURS)
    results.add(
        **describe(manifest),
        device=device.device_kind,
        versions={"jax": jax.__version__, "tensorflow": manifest.tensorflow},
        full_float32=args.full_float32,
    )
    text = load_program_text(args.program)
    if args.full_float32:
        text = use_full_float32(text)
    start = time.perf_counter()
    executable = Executable(text, device)
    seconds = time.perf_counter() - start
    planned = executable.planned_bytes() / 1e9
    results.add(compile_seconds=seconds, planned_gigabytes=planned)
    runner = Runner(executable, manifest, make_arguments(manifest, args.program))
    results.add(**first_outputs(runner, manifest))
    figures = time_runs(runner, args.runs)
    results.add(
        **figures,
        peak_gigabytes=(peak_bytes(device) or 0) / 1e9 or planned,
        tokens_per_second=manifest.tokens / figures["run_seconds"],
        flops_per_second=manifest.flops / figures["run_seconds"],
        data_sheet=data_sheet(device.device_kind, manifest.precision),
    )
    if manifest.kind == UPDATE and not manifest.is_check:
        tokens = manifest.rows * manifest.target_length
        ceiling = product_ceiling(manifest.sizes, tokens, manifest.precision)
        results.add(ceiling=ceiling)
    if args.profile:
        try:
            kinds = KernelKinds(Module(executable.optimized_text()), manifest.kind)
            figures = profile_runs(runner, args.profile, kinds, device.platform)
        except Exception as error:
            # It rests on what differs between versions of JAX, and all else is known.
            figures = {"profile_error": f"{type(error).__name__}: {error}"[:2000]}
        results.add(**figures)


def describe(manifest: Manifest) -> dict[str, Any]:
    """Returns what a program is, without its arguments."""
    names = ("kind", "config", "precision", "rows", "source_length", "target_length")
    names += ("tokens", "packed", "beam_size", "flops", "commit", "expected")
    return {**{name: getattr(manifest, name) for name in names}, "for": manifest.device}


def use_full_float32(text: str) -> str:
    """Returns a program whose products of float32 do not use TensorFloat-32."""
    full = text.replace("[DEFAULT, DEFAULT]", "[HIGHEST, HIGHEST]")
    if full == text:
        raise SystemExit("--full_float32: no product of the program has a precision.")
    jax.config.update("jax_default_matmul_precision", "highest")
    return full


def make_arguments(manifest: Manifest, folder: Path) -> list[jax.Array]:
    """Returns the first run's arguments: features, and drawn values of variables."""
    features = np.load(folder / INPUTS_FILE)
    return [
        draw_value(argument, jnp)
        if argument.is_state
        else jax.device_put(features[argument.name])
        for argument in manifest.arguments
    ]


def first_outputs(runner: Runner, manifest: Manifest) -> dict[str, Any]:
    """Returns the outputs of the first run, and how they differ from the expected."""
    start = time.perf_counter()
    outputs = runner.run()
    runner.wait()
    figures: dict[str, Any] = {"first_run_seconds": time.perf_counter() - start}
    if manifest.kind == UPDATE:
        figures["loss"] = _mean_loss(outputs)
        figures["gradient_norm"] = float(outputs["gradient_norm"].mean())
    else:
        figures["log_prob"] = float(np.mean(np.asarray(outputs["log_probs"])[:, 0]))
    for name, expected in manifest.expected.items():
        figures[f"{name}_difference"] = figures[name] / expected - 1
    return figures


def time_runs(runner: Runner, runs: int) -> dict[str, Any]:
    """Times runs one by one, then as many without waiting for each."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        runner.run()
        runner.wait()
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(runs):
        outputs = runner.run()
    runner.wait()
    figures = {
        "run_seconds": statistics.median(seconds),
        "best_run_seconds": min(seconds),
        "unwaited_run_seconds": (time.perf_counter() - start) / runs,
    }
    if "loss_sum" in outputs:
        figures["last_loss"] = _mean_loss(outputs)
    return figures


def _mean_loss(outputs: Mapping[str, jax.Array]) -> float:
    """Returns the loss per token of a run's update, or updates."""
    return float(outputs["loss_sum"].sum()) / float(outputs["token_count"].sum())


def data_sheet(device_kind: str, precision: str) -> float | None:
    """Returns the FLOP/s of a device's data sheet; None if it is not known here."""
    known = [rates for name, rates in DATA_SHEETS if name in device_kind]
    return known[0].get(precision) if known else None


def profile_runs(
    runner: Runner, runs: int, kinds: KernelKinds, platform: str
) -> dict[str, Any]:
    """Returns seconds per run by kind of kernel, and of the ten longest kernels."""

    def run() -> None:
        for _ in range(runs):
            runner.run()
        runner.wait()

    kernels = time_kernels(run, kinds.is_known, platform)
    for name in filter(kinds.is_container, list(kernels)):
        del kernels[name]
    by_kind: dict[str, float] = {}
    for name, seconds in kernels.items():
        kind = kinds.classify(name)
        by_kind[kind] = by_kind.get(kind, 0.0) + seconds / runs
    longest = kernels.most_common(10)
    return {
        "seconds_by_kind": dict(sorted(by_kind.items(), key=lambda kind: -kind[1])),
        "longest_kernels": [
            (kinds.describe(name), seconds / runs) for name, seconds in longest
        ],
    }


if __name__ == "__main__":
    main()
