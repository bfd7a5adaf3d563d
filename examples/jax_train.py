"""Trains a run of this project with JAX: its records, batches, dropout and optimizer.

    python examples/jax_train.py --flagfile=configs/tiny.flags --model_dir=runs/jax

The flags are those of `python -m t2t_keras.train`. Each update has the same batch,
dropout masks and, up to rounding, loss as there, on all devices of this machine.
Checkpoints, one at the end and one every --save_steps, are those of `train`: either
program resumes a run of the other. Nothing is evaluated, averaged or exported.
"""

import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import numpy as np
from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.files.quiet import quiet_start_up
from t2t_keras.settings import flags as settings
from t2t_keras.settings.config import ExperimentConfig, make_paths_absolute
from t2t_keras.settings.program import log, require_flag, run
from t2t_keras.settings.training_config import TrainingConfig

if (backend := os.environ["KERAS_BACKEND"]) != "jax":
    sys.exit(f"error: KERAS_BACKEND must be jax, or not be set. Received: {backend}")
try:
    import jax
    from jax.sharding import NamedSharding, PartitionSpec
except ModuleNotFoundError:
    sys.exit('error: this example needs JAX: pip install "t2t_keras[jax]"')
with quiet_start_up():
    import tensorflow as tf

    from t2t_keras.input_pipeline.batches.pipeline import DataPosition, TrainingBatches
    from t2t_keras.runs import models
    from t2t_keras.runs.data import run_data
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.runs.training import fine_tuning, optimization
    from t2t_keras.runs.training.prepared_run import find_source, prepare_run
    from t2t_keras.training.backend_checkpoints import load_variables, save_variables
    from t2t_keras.training.checkpoints import CheckpointState, steps_in
    from t2t_keras.training.keras_fit import LabelSmoothedCrossEntropy, fit_arguments
    from t2t_keras.training.step import append_rows
    from t2t_keras.training.update import row_keys

flags.DEFINE_string("model_dir", None, "Directory of the run. Required.")
settings.define_config_flags()


def check() -> ExperimentConfig:
    """Returns the settings; raises `UserError` if they ask for what is missing here."""
    require_flag("model_dir")
    config = settings.config_from_flags()
    if growth := ",".join(config.data.tokens_per_batch_steps):
        flag = f"--tokens_per_batch_steps={growth}"
        raise UserError(f"{flag} is not for this example. Leave it out.")
    for name in (
        "clip_norm",
        "cpu_devices",
        "ema_decay",
        "guided_alignment",
        "init_optimizer",
        "max_tokens_per_replica",
        "measure_ceiling",
        "tf32",
        "on_nonfinite",
        "optimizer",
        "patience",
        "precision",
        "profile_steps",
        "r_drop",
        "strategy",
    ):
        if (value := getattr(config.training, name)) != getattr(TrainingConfig, name):
            raise UserError(f"--{name}={value} is not for this example. Leave it out.")
    return config


def make_update(model: Any, optimizer: Any, label_smoothing: float) -> Callable:
    """Returns an update as a pure function: values and a batch to values and loss."""
    loss_sum = LabelSmoothedCrossEntropy(label_smoothing, reduction="sum")

    def mean_loss(weights: list, frozen: list, batch: tuple, keys: jax.Array):
        inputs, targets, counts = batch
        logits, _ = model.stateless_call(weights, frozen, inputs, dropout_keys=keys)
        return loss_sum(targets, logits, counts) / jax.numpy.maximum(counts.sum(), 1)

    def update(values: list, batch: tuple, keys: jax.Array):
        weights, frozen, state = values
        loss, gradients = jax.value_and_grad(mean_loss)(weights, frozen, batch, keys)
        weights, state = optimizer.stateless_apply(state, gradients, weights)
        return [weights, frozen, state], loss

    return update


def build(config: ExperimentConfig, model_dir: ModelDir) -> tuple:
    """Returns data, model, optimizer and state: of the newest checkpoint, or new."""
    is_new, training = not steps_in(model_dir.checkpoints), config.training
    source = find_source(config, model_dir)
    with log_to(log):
        data = prepare_run(config, model_dir, source=source)
    words = data.vocabulary
    start = models.find_decoder_start(config.model, words)
    model = models.build_model(config, words.size, start, words.source.size)
    fine_tuning.freeze(model, training.freeze)
    optimizer = optimization.build_optimizer(config, model)
    if source:
        initial = fine_tuning.Initializer(source, model, words, training.init_skip)
        log("\n".join(initial.load_weights()))
    state = CheckpointState(0, {}, fingerprints={"vocabulary": words.sha256})
    if not is_new:
        path = model_dir.find_checkpoint("latest")
        state = load_variables(path, model, optimizer)
        state = dataclasses.replace(state, scores={}, unlogged={})  # of older updates
        models.check_fingerprint(path, state.fingerprints, words)
        if int(optimizer.applied) != state.step:
            raise UserError(f"{path} has skipped updates, which Keras' Adam counts.")
    return data, model, optimizer, state


def train(config: ExperimentConfig, model_dir: ModelDir) -> None:
    """Trains to the last step, prints the loss of each update, and saves."""
    data, model, optimizer, state = build(config, model_dir)
    training = run_data.resolve_epochs(config, data.summary).training
    seed, last, keep = training.seed, training.train_steps, training.keep_checkpoints
    start = DataPosition(**state.position)
    batches = TrainingBatches(data.train, data.batching, seed=seed, start=start)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    by_rows = NamedSharding(mesh, PartitionSpec("data"))
    weights, frozen = model.trainable_variables, model.non_trainable_variables
    variables = [weights, frozen, optimizer.variables]
    values = jax.device_put([[v.value for v in part] for part in variables], everywhere)
    update = make_update(model, optimizer, training.label_smoothing)
    update = jax.jit(update, donate_argnums=0, out_shardings=everywhere)
    steps = range(state.step + 1, last + 1)
    for step, (batch, size) in zip(steps, batches, strict=False):
        # Rows of padding even out the shards; their tokens have weight 0.
        rows = -(-size.shape.rows // mesh.size) * mesh.size
        batch = {name: append_rows(part, rows) for name, part in batch.items()}
        keys = row_keys(seed, tf.constant(step - 1, "int64"), np.arange(rows)).numpy()
        shards = jax.device_put((fit_arguments(batch), keys), by_rows)
        values, loss = update(values, *shards)
        print(f"step {step}/{last}  loss {loss:.6f}", flush=True)
        if not np.isfinite(loss):
            raise UserError(f"The loss of update {step} is {loss}: nothing was saved.")
        if step == last or (training.save_steps and step % training.save_steps == 0):
            jax.tree.map(lambda each, value: each.assign(value), variables, values)
            position = dataclasses.asdict(batches.position_after(step - state.step))
            saved = dataclasses.replace(state, step=step, position=position)
            save_variables(model_dir.checkpoints, model, optimizer, saved, keep)


def main() -> None:
    """Trains the run of the flags."""
    tf.config.set_visible_devices([], "GPU")  # their memory is for JAX
    model_dir = ModelDir(flags.FLAGS.model_dir)
    with log_to(log):
        with model_dir.lock():
            train(make_paths_absolute(check()), model_dir)


if __name__ == "__main__":
    run(main, __doc__, with_config=True, own_devices=True, check=check, backend="jax")
