"""Training step written as one StableHLO program that any XLA device can run.

    python -m benchmarks.gpu.write --config=base --precision=bfloat16 \\
        --rows=390 --length=64 --out=DIR

TensorFlow on the CPU only traces the step that `t2t_keras.train` runs: forward pass,
chunked loss, gradients, Adam and the dropout keys. The result is a pure function. It
takes the batch, weights, moments and counts, and returns sums and the next values of
the variables. `benchmarks.gpu.run` runs it. `--initial_values` also writes the
weights. Without it, the runner draws values with the same mean and deviation.
"""

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.product_step import (
    CONFIGS,
    ProductStep,
    build_product_step,
    count_update_flops,
    load_config,
    make_synthetic_batch,
)
from benchmarks.gpu.manifest import (
    BATCH_FILE,
    INITIAL_FILE,
    PROGRAM_FILE,
    Argument,
    Manifest,
    Result,
)
from benchmarks.gpu.program_text import (
    TensorType,
    compute_constants,
    find_replaced_arguments,
    largest_literal,
    main_types,
    replace_copies,
)
from t2t_keras.training.step import shard_batch
from t2t_keras.typing import DECODER_TARGET_TOKENS, ENCODER_INPUT_TOKENS, Batch

# Limit of characters; a constant that grows with batch or vocabulary is an error.
LARGEST_LITERAL = 64 * 1024
SUMS = ("loss_sum", "log_loss_sum", "token_count", "gradient_norm")


def main(argv: Sequence[str] | None = None) -> None:
    """Writes one program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = sorted(path.stem for path in CONFIGS.glob("*.flags"))
    parser.add_argument("--config", choices=names, default="base")
    parser.add_argument(
        "--precision", choices=("float32", "bfloat16"), default="float32"
    )
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=32, help="Tokens per source.")
    parser.add_argument(
        "--target_length", type=int, help="Tokens per target. Default: --length."
    )
    parser.add_argument("--initial_values", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    config = load_config(args.config, precision=args.precision)
    step = build_product_step(config, config.data.vocabulary_size)
    batch = make_synthetic_batch(
        config.data.vocabulary_size,
        args.rows,
        args.length,
        args.target_length or args.length,
    )
    manifest = write_program(
        step,
        batch,
        args.out,
        config=args.config,
        precision=args.precision,
        initial_values=args.initial_values,
    )
    print(
        f"{args.out}: {len(manifest.arguments)} arguments, "
        f"{len(manifest.results)} results, "
        f"{manifest.flops_per_step / 1e12:.3g} TFLOP a step, "
        f"{(args.out / PROGRAM_FILE).stat().st_size / 1e6:.1f} MB of text"
    )


def write_program(
    step: ProductStep,
    batch: Batch,
    folder: Path,
    *,
    config: str,
    precision: str,
    initial_values: bool,
) -> Manifest:
    """Writes program, manifest, batch and optional initial values into a folder.

    Args:
        step: Step whose next update is the first update of the program.
        batch: Features [B, L].
        folder: Output folder, created if it does not exist.
        config: Name of the settings.
        precision: Precision in the settings.
        initial_values: Whether to write the weights, moments and counts.

    Raises:
        RuntimeError: If the program does not agree with its manifest.
    """
    shard = shard_batch(batch, replica=0, num_local=1)
    text, variables = trace_program(step, shard)
    features = [
        Argument(name, shard[name].shape, str(shard[name].dtype), is_state=False)
        for name in sorted(shard)
    ]
    values = {variable.path: np.asarray(variable.value) for variable in variables}
    arguments = (*features, *(_state(name, value) for name, value in values.items()))
    results = _results(text, arguments)
    _check(text, arguments, results)
    rows, source_length = batch[ENCODER_INPUT_TOKENS].shape
    manifest = Manifest(
        config=config,
        precision=precision,
        rows=rows,
        source_length=source_length,
        target_length=batch[DECODER_TARGET_TOKENS].shape[1],
        sizes=step.model.sizes,
        flops_per_step=count_update_flops(step, batch),
        commit=_commit(),
        tensorflow=tf.__version__,
        arguments=arguments,
        results=results,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROGRAM_FILE).write_text(text, encoding="utf-8")
    np.savez(folder / BATCH_FILE, **shard)
    if initial_values:
        np.savez(folder / INITIAL_FILE, **values)
    manifest.save(folder)
    return manifest


def trace_program(step: ProductStep, shard: Batch) -> tuple[str, list[Any]]:
    """Returns a step's StableHLO and the variables behind its arguments, in order.

    Its arguments are the features of `shard` in the order of their names, then these
    variables. Its results are `SUMS`, then the next values of variables.

    Raises:
        RuntimeError: If the step uses variables of neither model nor optimizer.
    """
    names = sorted(shard)

    def update(*features: Any) -> list[Any]:
        sums = step.stepper.train_replica(dict(zip(names, features, strict=True)))
        # No constants: XLA would leave them out of the results.
        return [*sums.losses, sums.gradient_norm]

    specs = [tf.TensorSpec(shard[name].shape, shard[name].dtype) for name in names]
    traced = tf.function(update, jit_compile=True)
    text = traced.experimental_get_compiler_ir(*specs)(
        stage="stablehlo", platform_name="CPU"
    )
    text = replace_copies(compute_constants(text))
    known = {
        id(variable.value.handle): variable
        for variable in (*step.model.variables, *step.optimizer.variables)
    }
    captured = traced.get_concrete_function(*specs).captured_inputs
    unknown = [tensor for tensor in captured if id(tensor) not in known]
    if unknown:
        raise RuntimeError(
            "A step must rest on variables of its model and its optimizer alone. It "
            f"captured: {unknown}"
        )
    return text, [known[id(tensor)] for tensor in captured]


def _state(name: str, value: np.ndarray) -> Argument:
    return Argument(
        name,
        value.shape,
        str(value.dtype),
        is_state=True,
        mean=float(value.mean()),
        std=float(value.std()),
    )


def _results(text: str, arguments: Sequence[Argument]) -> tuple[Result, ...]:
    """Returns the results: `SUMS`, then those that overwrite variables.

    Raises:
        RuntimeError: If a variable has no next value, or a result is unknown.
    """
    replaced = find_replaced_arguments(text)
    states = [place for place, one in enumerate(arguments) if one.is_state]
    places = range(len(SUMS), len(SUMS) + len(replaced))
    if sorted(replaced) != list(places) or sorted(replaced.values()) != states:
        raise RuntimeError(
            f"The results behind {SUMS} must be written over arguments {states}, each "
            f"over one. Received: {replaced}"
        )
    variables = [(replaced[place], arguments[replaced[place]]) for place in places]
    return (
        *(Result(name, (), "float32") for name in SUMS),
        *(Result(one.name, one.shape, one.dtype, place) for place, one in variables),
    )


def _check(text: str, arguments: Sequence[Argument], results: Sequence[Result]) -> None:
    """Raises `RuntimeError` if types differ or a constant is too large."""
    for kind, stated, types in zip(
        ("arguments", "results"), (arguments, results), main_types(text), strict=True
    ):
        expected = [TensorType(one.shape, one.dtype) for one in stated]
        if expected != types:
            raise RuntimeError(
                f"The program's {kind} must be {expected}. Received: {types}"
            )
    longest = largest_literal(text)
    if longest > LARGEST_LITERAL:
        raise RuntimeError(
            "A program must not contain its constants: pass them in. Received one of "
            f"{longest:,} characters, where {LARGEST_LITERAL:,} is the most."
        )


def _commit() -> str:
    """Returns the commit of this checkout, "unknown" without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=7"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=CONFIGS, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
