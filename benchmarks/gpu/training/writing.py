"""Folders of trainings: data and dev loss that all seeds share, and each seed's own."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.gpu.programs import Program, build_step
from benchmarks.gpu.training.folder import (
    BATCHES_FILE,
    DEV_LOSS_FOLDER,
    PAIRS_FILE,
    TRAINING_FILE,
    UPDATE_FOLDER,
    Training,
    save_training,
)
from benchmarks.gpu.training.packed_batches import arrange
from benchmarks.gpu.training.programs import write_dev_loss, write_updates
from benchmarks.product_step import ProductStep
from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_folder
from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.batches.batching_strategy import BatchingStrategy
from t2t_keras.input_pipeline.batches.pipeline import EvaluationBatches, TrainingBatches
from t2t_keras.input_pipeline.batches.plan import PlannedBatch
from t2t_keras.input_pipeline.records.tokenized import TokenizedCorpus
from t2t_keras.runs.data.run_data import RunData, resolve_epochs
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.prepared_run import prepare_run
from t2t_keras.settings.config import ExperimentConfig


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to write.

    Attributes:
        config: The settings, whose seed does not matter.
        seeds: Seeds of the trainings.
        out: Folder of their folders.
        name: First part of the folders' names.
        device: "cpu" or "gpu", the device whose choices the step has.
        most_updates: Most updates of one run of the program.
    """

    config: ExperimentConfig
    seeds: Sequence[int]
    out: Path
    name: str
    device: str
    most_updates: int

    def seed_folder(self, seed: int) -> Path:
        """Returns the folder of a seed's training."""
        return self.out / f"{self.name}-{seed}"

    @property
    def data_folder(self) -> Path:
        """The folder of what all seeds share."""
        return self.out / f"{self.name}-data"


def write_trainings(plan: Plan, log: Callable[[str], object]) -> None:
    """Writes the data once, and a training for each seed.

    Args:
        plan: What to write.
        log: Called with lines of progress.

    Raises:
        UserError: If there is such a folder already, or text cannot be used.
    """
    complete = [plan.seed_folder(seed) / TRAINING_FILE for seed in plan.seeds]
    for path in (plan.data_folder, *complete):
        if path.exists():
            raise UserError(
                f"{path} must not be there yet. Give another --out or --name, or "
                "delete what was written."
            )
    plan.out.mkdir(parents=True, exist_ok=True)
    with atomic_folder(plan.data_folder) as folder:
        with log_to(log):
            data = prepare_run(plan.config, ModelDir(folder))
        dev_set = _dev_batches(plan.config, data)
        _save_pairs(folder / PAIRS_FILE, data.train)
        config = resolve_epochs(plan.config, data.summary)
        for seed in plan.seeds:
            training = dataclasses.replace(config.training, seed=seed)
            program = Program(
                name=plan.seed_folder(seed).name,
                config_name=plan.name,
                config=_with_size(dataclasses.replace(config, training=training), data),
                device=plan.device,
            )
            step = build_step(dataclasses.replace(program, packed=True), program.config)
            if seed == plan.seeds[0]:
                write_dev_loss(folder / DEV_LOSS_FOLDER, program, step, dev_set)
            made = _write_seed(plan, program, step, data)
            log(
                f"{program.name}: {made.train_steps:,} updates in {made.epochs} "
                f"epochs, {made.updates_per_run} in a run of the program"
            )


def _write_seed(
    plan: Plan, program: Program, step: ProductStep, data: RunData
) -> Training:
    """Writes batches, program and settings of a training."""
    settings = program.config.training
    (shape,) = data.batching.shapes
    count = _updates_per_run(
        plan.most_updates,
        settings.train_steps,
        settings.log_steps,
        settings.eval_steps,
        settings.save_steps,
    )
    planned = _plan_batches(data.batching, settings.seed)
    epochs, batches = zip(*itertools.islice(planned, settings.train_steps), strict=True)
    folder = plan.seed_folder(settings.seed)
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / BATCHES_FILE, **arrange(batches, shape.rows))
    made = TrainingBatches(data.train, data.batching, seed=settings.seed)
    first = [batch for batch, _ in itertools.islice(made, count)]
    write_updates(folder / UPDATE_FOLDER, program, step, first)
    training = Training(
        data=plan.data_folder.name,
        seed=settings.seed,
        train_steps=settings.train_steps,
        updates_per_run=count,
        log_steps=settings.log_steps,
        eval_steps=settings.eval_steps,
        save_steps=settings.save_steps,
        average_checkpoints=settings.average_checkpoints,
        epochs=epochs[-1] + 1,
    )
    save_training(folder, training)
    return training


def _dev_batches(config: ExperimentConfig, data: RunData) -> list:
    """Returns the dev set in batches of one shape, and checks what else is needed."""
    if data.dev is None:
        raise UserError("--dev_source and --dev_target are required.")
    if data.vocabulary.source.size != data.vocabulary.size:
        raise UserError(
            "The vocabulary must be the same for both languages. Received: "
            f"{data.vocabulary.source.size} and {data.vocabulary.size} pieces."
        )
    size = config.data.tokens_per_batch
    return list(EvaluationBatches(data.dev, max_shapes=1, tokens_per_batch=size))


def _save_pairs(path: Path, corpus: TokenizedCorpus) -> None:
    """Writes the ids of all pairs, as `PackedBatches` reads them."""
    arrays = {}
    for side in ("source", "target"):
        tokens, lengths = getattr(corpus, side).gather(np.arange(len(corpus)))
        arrays |= {side: tokens, f"{side}_lengths": lengths.astype(np.int32)}
    np.savez_compressed(path, **arrays)


def _with_size(config: ExperimentConfig, data: RunData) -> ExperimentConfig:
    """Returns the settings with the size that the vocabulary has in fact."""
    part = dataclasses.replace(config.data, vocabulary_size=data.vocabulary.size)
    return dataclasses.replace(config, data=part)


def _plan_batches(
    strategy: BatchingStrategy, seed: int
) -> Iterator[tuple[int, PlannedBatch]]:
    """Yields the endless batches of `TrainingBatches` as numbers, with their epochs."""
    for epoch in itertools.count():
        for planned in strategy.plan(seed, epoch):
            yield epoch, planned


def _updates_per_run(most: int, *intervals: int) -> int:
    """Returns the largest number of at most `most` that divides all intervals.

    >>> _updates_per_run(10, 11_000, 100, 1_000, 150)
    10
    """
    divisor = math.gcd(*intervals)
    return max(n for n in range(1, most + 1) if divisor % n == 0)
