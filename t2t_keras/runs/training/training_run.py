"""Training run from corpus to last checkpoint, new or resumed."""

import contextlib
import hashlib

import tensorflow as tf

from t2t_keras.files.logs import log_nothing
from t2t_keras.runs.data.run_data import advice, resolve_epochs
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import Task
from t2t_keras.runs.training.prepared_run import find_source, prepare_run
from t2t_keras.runs.training.trainer import Trainer
from t2t_keras.runs.training.workers import check_agreement, chief_first
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.training.progress import MetricsFile, OnRecord, Progress
from t2t_keras.training.strategy import is_chief


def train(
    config: ExperimentConfig,
    model_dir: ModelDir,
    strategy: tf.distribute.Strategy | None = None,
    *,
    task: Task | None = None,
    on_record: OnRecord = lambda step, values: None,
) -> None:
    """Trains until `train_steps`, in a new model directory or resuming in an old one.

    Workers other than the chief log nothing.

    Args:
        config: The settings.
        model_dir: Directory of the run. All workers read it; only the chief writes.
        strategy: Strategy from `set_up_devices`. Default: one device.
        task: Default: the task of the run's target language.
        on_record: Called with the step and the numbers of each record, by name.

    Raises:
        UserError: If a setting or a file cannot be used; see the message.
        Interrupted: After a signal, and after saving if that was possible.
        tf.errors.OpError: If another worker is lost; `explain_lost_worker` turns it
            into a `UserError`.
    """
    replicas: tf.distribute.Strategy = strategy or tf.distribute.get_strategy()
    with contextlib.nullcontext() if is_chief(replicas) else log_nothing():
        _train(config, model_dir, replicas, task, on_record)


def _train(
    config: ExperimentConfig,
    model_dir: ModelDir,
    replicas: tf.distribute.Strategy,
    task: Task | None,
    on_record: OnRecord,
) -> None:
    chief = is_chief(replicas)
    metrics = MetricsFile(model_dir.metrics_file) if chief else None
    progress = Progress(
        str(model_dir.tensorboard) if chief else None,
        metrics,
        on_record,
    )
    source = find_source(config, model_dir)
    with chief_first(replicas):
        data = prepare_run(
            config,
            model_dir,
            task,
            source=source,
            writes=chief,
            num_replicas=replicas.num_replicas_in_sync,
        )
    config = resolve_epochs(config, data.summary)
    if config.training.train_epochs is not None:
        steps = f"{config.training.train_steps:,}"
        progress.log(f"--train_epochs={config.training.train_epochs:g}: {steps} steps")
    for line in advice(config, data):
        progress.warn(line)
    trainer = Trainer(config, model_dir, data, progress, replicas)
    with chief_first(replicas):  # the chief moves damaged checkpoints aside
        trainer.restore(source)
    check_agreement(
        replicas,
        config,
        trainer.first_step,
        data.vocabulary.sha256,
        data.summary,
        source and source.sha256,
        data.dev and hashlib.sha256(data.dev.lengths.tobytes()).hexdigest(),
    )
    if metrics:
        # Also the evaluation of initial weights at step 0, which is repeated.
        metrics.cut_after(trainer.first_step or -1)
    trainer.complete_evaluation()
    trainer.train()
