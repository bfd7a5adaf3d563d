"""Programs of a training: some updates at a time, and the loss of a whole dev set.

A program does the same with each batch of a stack, in a loop on the device. Starting a
program with hundreds of weights and moments takes Python a millisecond or two, as long
as an update of a small model takes a GPU.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.gpu.manifest import EVALUATION, UPDATE, Manifest
from benchmarks.gpu.programs import UPDATE_OUTPUTS, Program, save, trace
from benchmarks.product_step import ProductStep, count_update_flops
from t2t_keras.training.step import batch_shape
from t2t_keras.training.update import ROW_NUMBERS
from t2t_keras.typing import DECODER_LOSS_WEIGHTS, Batch

LOSS_OUTPUTS = ("loss_sum", "log_loss_sum", "token_count")


def write_updates(
    folder: Path, program: Program, step: ProductStep, batches: Sequence[Batch]
) -> Manifest:
    """Writes the program of an update for each batch of a stack, in order.

    Args:
        folder: Folder of the program.
        program: Its name and settings; sizes are those of the batches.
        step: The training step.
        batches: The first batches, all of one shape.
    """

    def update(batch: Batch) -> list[Any]:
        rows = tf.range(batch_shape(batch).rows)
        sums = step.stepper.train_replica({**batch, ROW_NUMBERS: rows})
        return [*sums.losses, sums.gradient_norm]

    variables = (*step.model.variables, *step.optimizer.variables)
    fields = {
        "kind": UPDATE,
        "outputs": UPDATE_OUTPUTS,
        "flops": len(batches) * count_update_flops(step, batches[0]),
    }
    program = dataclasses.replace(program, packed=True)
    return _write(folder, program, update, batches, variables, step=step, **fields)


def write_dev_loss(
    folder: Path, program: Program, step: ProductStep, batches: Sequence[Batch]
) -> Manifest:
    """Writes the program of the loss of a dev set, without dropout and smoothing.

    Args:
        folder: Folder of the program.
        program: Its name and settings; sizes are those of the batches.
        step: The training step, whose model is evaluated.
        batches: The whole dev set, all of one shape.
    """

    def evaluate(batch: Batch) -> list[Any]:
        return [*step.stepper.evaluate_replica(batch).losses]

    fields = {"kind": EVALUATION, "outputs": LOSS_OUTPUTS, "flops": 0.0}
    variables = step.model.variables
    return _write(folder, program, evaluate, batches, variables, step=step, **fields)


def _write(
    folder: Path,
    program: Program,
    compute: Callable[[Batch], list[Any]],
    batches: Sequence[Batch],
    variables: Sequence[Any],
    *,
    step: ProductStep,
    outputs: Sequence[str],
    **fields: Any,
) -> Manifest:
    names = sorted(batches[0])
    features = {name: np.stack([batch[name] for batch in batches]) for name in names}
    count = len(batches)

    def compute_all(*stacks: Any) -> list[Any]:
        def compute_next(i: Any, rows: Any) -> tuple[Any, Any]:
            batch = dict(zip(names, (stack[i] for stack in stacks), strict=True))
            row = tf.stack(compute(batch))
            return i + 1, tf.tensor_scatter_nd_update(rows, [[i]], row[None])

        start = tf.constant(0), tf.zeros([count, len(outputs)])
        _, rows = tf.while_loop(
            lambda i, _: i < count, compute_next, start, maximum_iterations=count
        )
        return tf.unstack(rows, axis=1)

    traced = trace(compute_all, list(features.values()), variables)
    shape = batch_shape(batches[0])
    sized = dataclasses.replace(
        program,
        rows=shape.rows,
        source_length=shape.source_bound,
        target_length=shape.target_bound,
    )
    return save(
        folder,
        sized,
        traced,
        features,
        outputs=outputs,
        sizes=step.model.sizes,
        tokens=int(features[DECODER_LOSS_WEIGHTS].sum()),
        expected={},
        **fields,
    )
