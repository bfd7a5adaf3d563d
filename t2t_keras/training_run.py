"""A training run from corpus to last checkpoint, or on from where it stopped."""

import dataclasses
import time
from typing import Any, cast

import numpy as np
import tensorflow as tf

from t2t_keras import experiment
from t2t_keras.checkpoints import CheckpointState, CheckpointStore
from t2t_keras.config import ExperimentConfig
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.input_pipeline.pipeline import DataPosition, TrainingBatches
from t2t_keras.model_dir import ModelDir
from t2t_keras.run_data import RunData, prepare_data
from t2t_keras.training.loop import Intervals, train_loop
from t2t_keras.training.progress import Progress, as_duration


def train(config: ExperimentConfig, model_dir: ModelDir) -> None:
    """Trains until `train_steps`, in a new model directory or on in an old one.

    Raises:
        UserError: If something given cannot be used; see the message.
        Interrupted: After a signal, with everything saved if it could be.
    """
    progress = Progress(str(model_dir.tensorboard), config.training.train_steps)
    data = prepare_data(config, model_dir, progress.say)
    strategy = build_strategy()
    with strategy.scope():
        model = experiment.build_model(config, data.vocabulary.size)
        optimizer = experiment.build_optimizer(config, model)
    progress.say(
        f"model: {model.count_params():,} parameters on "
        f"{strategy.num_replicas_in_sync} device(s), "
        f"{'XLA' if config.training.jit_compile else 'no XLA'}"
    )
    run = _Run(config, model_dir, data, progress, model, optimizer, strategy)
    run.restore()
    run.train()


def build_strategy() -> tf.distribute.Strategy:
    """Returns a mirrored strategy over all GPUs, or the default without several."""
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


class _Run:
    """A run in progress: what the loop calls back."""

    def __init__(self, config, model_dir, data, progress, model, optimizer, strategy):
        self._config: ExperimentConfig = config
        self._model_dir: ModelDir = model_dir
        self._data: RunData = data
        self._progress: Progress = progress
        self._stepper = experiment.build_stepper(
            config.training, model, optimizer, strategy, packed=data.filling.packed
        )
        self._store = CheckpointStore(model_dir.checkpoints, model, optimizer)
        self._best_store = CheckpointStore(model_dir.best, model)
        self._translator = experiment.build_translator(
            model, data.vocabulary, dataclasses.replace(config.decoding, beam_size=1)
        )
        self._first_step = 0
        self._first_position = DataPosition()
        self._scores: dict[str, float] = {}
        self._best_loss = float("inf")

    def restore(self) -> None:
        """Goes on from the newest whole checkpoint, if there is one."""
        state, warnings = self._store.restore_newest()
        for warning in warnings:
            self._progress.say(f"warning: {warning}")
        if state is None or state.position is None:
            return
        experiment.check_fingerprint(
            self._store.path(state.step), state.fingerprints, self._data.vocabulary
        )
        self._first_step = state.step
        self._first_position = DataPosition(**state.position)
        self._best_loss = state.scores.get("best_dev_loss", float("inf"))
        self._progress.say(f"going on from step {state.step:,}")

    def train(self) -> None:
        """Trains from where the run is to its last step."""
        training = self._config.training
        if self._first_step >= training.train_steps:
            self._progress.say(f"all {training.train_steps:,} steps are made already")
            return
        self._batches = TrainingBatches(
            self._data.train,
            self._data.filling,
            seed=training.seed,
            start=self._first_position,
        )
        schedule = experiment.build_schedule(self._config)
        start_seconds = time.monotonic()
        train_loop(
            self._stepper,
            cast(Any, self._batches.dataset().as_numpy_iterator()),
            steps=range(self._first_step, training.train_steps),
            intervals=Intervals(
                log_steps=training.log_steps,
                eval_steps=training.eval_steps,
                save_steps=training.save_steps,
                save_seconds=60 * training.save_minutes,
            ),
            evaluate=self._evaluate,
            save=self._save,
            learning_rate=lambda step: float(schedule(step - 1)),
            progress=self._progress,
        )
        seconds = time.monotonic() - start_seconds
        self._progress.say(f"trained for {as_duration(seconds)}")

    def _evaluate(self, step: int) -> None:
        """Reports dev loss, perplexity and BLEU; keeps the checkpoint if best."""
        if self._data.dev is None:
            return
        sums = experiment.dev_sums(self._stepper, self._data.dev, self._config.data)
        loss = sums.log_loss_sum / sums.token_count
        scores = {"dev_loss": loss, "dev_perplexity": float(np.exp(loss))}
        line = f"  dev: loss {loss:.3f}, perplexity {scores['dev_perplexity']:.2f}"
        sentences = self._config.training.dev_bleu_sentences
        if sentences:
            scores["dev_bleu_greedy"] = self._dev_bleu(sentences)
            line += f", BLEU {scores['dev_bleu_greedy']:.1f} (greedy)"
        self._progress.say(line)
        self._progress.scalars(step, scores)
        self._scores = scores
        if loss < self._best_loss and self._write(self._best_store, step, loss):
            self._best_loss = loss
            self._best_store.prune(keep=1)

    def _dev_bleu(self, sentences: int) -> float:
        pairs = list(self._data.corpus.pairs("dev").take(sentences).as_numpy_iterator())
        lines = self._translator.translate([pair["source"] for pair in pairs])
        references = [pair["target"].decode(errors="replace") for pair in pairs]
        return corpus_scores([line.text for line in lines], references).bleu

    def _save(self, step: int) -> bool:
        saved = self._write(self._store, step, self._best_loss)
        if saved:
            self._store.prune(self._config.training.keep_checkpoints)
        return saved

    def _write(self, store: CheckpointStore, step: int, best_loss: float) -> bool:
        """Writes a checkpoint; a full disk is a warning, not the end of the run."""
        position = self._batches.position_after(step - self._first_step)
        state = CheckpointState(
            step=step,
            position=dataclasses.asdict(position),
            scores={**self._scores, "best_dev_loss": best_loss},
            fingerprints={"vocabulary": self._data.vocabulary.sha256},
        )
        try:
            store.save(state)
        except OSError as error:
            self._progress.say(
                f"warning: no checkpoint at step {step:,}: {error}. Training goes on; "
                "the checkpoint before is kept."
            )
            return False
        return True
