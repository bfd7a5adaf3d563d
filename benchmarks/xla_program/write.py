"""Writes the training step as one StableHLO program that any XLA device can run.

    python -m benchmarks.xla_program.write --config=base --precision=bfloat16 \\
        --rows=390 --length=64 --out=DIR

TensorFlow, on the CPU, only traces the step: forward, chunked loss, gradients, Adam
and the dropout keys, the code that `t2t_keras.train` runs. What comes out is a pure
function: batch, weights, moments and counts in; sums and their next values out.
`benchmarks.xla_program.run` runs it. `--initial_values` writes the weights too; else
the runner draws some of the same mean and deviation on the device.
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
    flops_of,
    made_up_batch,
    named_config,
    product_step,
)
from benchmarks.xla_program.manifest import (
    BATCH_FILE,
    INITIAL_FILE,
    PROGRAM_FILE,
    Argument,
    Manifest,
    Result,
)
from benchmarks.xla_program.program_text import (
    TensorType,
    largest_literal,
    main_types,
    replaced_arguments,
    with_computed_constants,
)
from t2t_keras.training.step import shard_batch
from t2t_keras.typing import Batch

# A constant that grows with batch or vocabulary would be compiled in, and is a fault.
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
    parser.add_argument("--length", type=int, default=32, help="Of the source.")
    parser.add_argument("--target_length", type=int, help="The source's if not given.")
    parser.add_argument("--initial_values", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(argv)
    config = named_config(given.config, precision=given.precision)
    step = product_step(config, config.data.vocabulary_size)
    batch = made_up_batch(
        config.data.vocabulary_size,
        given.rows,
        given.length,
        given.target_length or given.length,
    )
    manifest = write_program(
        step,
        batch,
        given.out,
        config=given.config,
        precision=given.precision,
        initial_values=given.initial_values,
    )
    print(
        f"{given.out}: {len(manifest.arguments)} arguments, "
        f"{len(manifest.results)} results, "
        f"{manifest.flops_per_step / 1e12:.3g} TFLOP a step, "
        f"{(given.out / PROGRAM_FILE).stat().st_size / 1e6:.1f} MB of text"
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
    """Writes program, manifest, batch and maybe initial values into a folder.

    Args:
        step: Whose next update is the first the program makes.
        batch: Features [B, L].
        folder: Made if it is not there.
        config: What the settings are called.
        precision: Of the settings.
        initial_values: Whether to write the weights, moments and counts.

    Raises:
        RuntimeError: If the program is not what the manifest would say of it.
    """
    shard = shard_batch(batch, replica=0, num_local=1)
    text, variables = traced_program(step, shard)
    features = [
        Argument(name, shard[name].shape, str(shard[name].dtype), is_state=False)
        for name in sorted(shard)
    ]
    values = {variable.path: np.asarray(variable.value) for variable in variables}
    arguments = (*features, *(_state(name, value) for name, value in values.items()))
    results = _results(text, arguments)
    _check(text, arguments, results)
    rows, source_length = batch["encoder_input_tokens"].shape
    manifest = Manifest(
        config=config,
        precision=precision,
        rows=rows,
        source_length=source_length,
        target_length=batch["decoder_target_tokens"].shape[1],
        sizes=step.model.sizes,
        flops_per_step=flops_of(step, batch),
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


def traced_program(step: ProductStep, shard: Batch) -> tuple[str, list[Any]]:
    """Returns a step's StableHLO and the variables behind its arguments, in order.

    Its arguments are the features of `shard` by name, then those variables; its
    results are `SUMS`, then next values of variables.

    Raises:
        RuntimeError: If it rests on anything but model and optimizer.
    """
    names = sorted(shard)

    def update(*features: Any) -> list[Any]:
        sums = step.stepper.train_replica(dict(zip(names, features, strict=True)))
        # Nothing constant: XLA would leave it out of the results.
        return [*sums.losses, sums.gradient_norm]

    specs = [tf.TensorSpec(shard[name].shape, shard[name].dtype) for name in names]
    traced = tf.function(update, jit_compile=True)
    text = traced.experimental_get_compiler_ir(*specs)(
        stage="stablehlo", platform_name="CPU"
    )
    text = with_computed_constants(text)
    known = {
        id(variable.value.handle): variable
        for variable in (*step.model.variables, *step.optimizer.variables)
    }
    captured = traced.get_concrete_function(*specs).captured_inputs
    strangers = [tensor for tensor in captured if id(tensor) not in known]
    if strangers:
        raise RuntimeError(
            "A step must rest on variables of its model and its optimizer alone. It "
            f"captured: {strangers}"
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
    """Returns what a text gives: `SUMS`, and by XLA's word the values of variables.

    Raises:
        RuntimeError: If a variable has no next value, or another result has no name.
    """
    replaced = replaced_arguments(text)
    states = [place for place, one in enumerate(arguments) if one.is_state]
    given = range(len(SUMS), len(SUMS) + len(replaced))
    if sorted(replaced) != list(given) or sorted(replaced.values()) != states:
        raise RuntimeError(
            f"The results behind {SUMS} must be written over arguments {states}, each "
            f"over one. Received: {replaced}"
        )
    variables = [(replaced[place], arguments[replaced[place]]) for place in given]
    return (
        *(Result(name, (), "float32") for name in SUMS),
        *(Result(one.name, one.shape, one.dtype, place) for place, one in variables),
    )


def _check(text: str, arguments: Sequence[Argument], results: Sequence[Result]) -> None:
    """Raises `RuntimeError` if a text takes or gives, or contains, anything else."""
    for what, stated, found in zip(
        ("arguments", "results"), (arguments, results), main_types(text), strict=True
    ):
        expected = [TensorType(one.shape, one.dtype) for one in stated]
        if expected != found:
            raise RuntimeError(
                f"The program's {what} must be {expected}. Received: {found}"
            )
    longest = largest_literal(text)
    if longest > LARGEST_LITERAL:
        raise RuntimeError(
            "A program must not contain its constants: pass them in. Received one of "
            f"{longest:,} characters, where {LARGEST_LITERAL:,} is the most."
        )


def _commit() -> str:
    """Returns the commit of this checkout, or what is known of it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=7"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=CONFIGS, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
