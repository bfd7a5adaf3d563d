"""Training of a run in one process: what the training loop calls."""

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from t2t_keras.input_pipeline.batches.pipeline import DataPosition, TrainingBatches
from t2t_keras.input_pipeline.batches.plan import WorkerShard
from t2t_keras.runs import models
from t2t_keras.runs.data.run_data import RunData
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training import fine_tuning, optimization
from t2t_keras.runs.training.dev_evaluation import DevEvaluation
from t2t_keras.runs.training.source import Source
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.training.checkpoints import CheckpointState
from t2t_keras.training.devices import choices_for, current_device
from t2t_keras.training.loop import Hooks, Intervals, Watchdog, train_loop
from t2t_keras.training.meter import Meter, MeterSums, TrainingCost
from t2t_keras.training.nonfinite import NonFiniteGuard, norms_by_name, weight_norm
from t2t_keras.training.preflight import compile_if_new, preflight
from t2t_keras.training.profiling import (
    StepProfiler,
    matrix_product_ceiling,
    training_flops,
)
from t2t_keras.training.progress import (
    MetricsFile,
    Progress,
    as_duration,
    as_flops,
)
from t2t_keras.training.step import batch_shape
from t2t_keras.training.stopping import find_early_stop, monitored_loss
from t2t_keras.training.strategy import (
    is_chief,
    num_processes,
    wait_for_all,
    worker_number,
)
from t2t_keras.typing import Batch, BatchSize

# Rows of the matrix products that measure the ceiling: about the tokens of a large
# batch.
_CEILING_ROWS = 8192


class Trainer:
    """Training of a run in this process, with the callbacks of the training loop."""

    def __init__(
        self,
        config: ExperimentConfig,
        model_dir: ModelDir,
        data: RunData,
        progress: Progress,
        strategy: tf.distribute.Strategy,
    ):
        self._config = config
        self._model_dir = model_dir
        self._data = data
        self._progress = progress
        self._strategy = strategy
        self._build_model()
        self._is_chief = is_chief(strategy)
        self._shard = WorkerShard(
            worker_number(strategy),
            num_processes(strategy),
            strategy.num_replicas_in_sync,
        )
        self._store = CheckpointStore(
            model_dir.checkpoints, self._model, self._optimizer, self._averages
        )
        self._best_store = CheckpointStore(model_dir.best, self._model)
        self._schedule = optimization.build_schedule(config)
        self._growth = config.data.batch_growth()
        self._watchdog = Watchdog(
            60 * config.training.watchdog_minutes,
            model_dir.stacks_file_for(self._shard.worker),
        )
        self._evaluation = DevEvaluation(
            config,
            data,
            self._model,
            self._stepper,
            progress,
            self._watchdog.heartbeat,
            shard=self._shard,
            is_chief=self._is_chief,
        )
        self.first_step = 0
        self._first_position = DataPosition()
        self._scores: dict[str, float] = {}
        self._evaluates_first = False
        self._ceiling: float | None = None
        self._meter = self._new_meter()

    def _build_model(self) -> None:
        """Builds model, optimizer and stepper, with frozen weights and averages."""
        config, strategy = self._config, self._strategy
        vocabulary = self._data.vocabulary
        start = models.find_decoder_start(config.model, vocabulary)
        with strategy.scope():
            self._model = models.build_model(
                config, vocabulary.size, start, vocabulary.source.size
            )
            frozen = fine_tuning.freeze(self._model, config.training.freeze)
            self._optimizer = optimization.build_optimizer(config, self._model)
            self._averages = optimization.build_averages(
                config.training, self._model, self._optimizer
            )
        self._stepper = optimization.build_stepper(
            config.training,
            self._model,
            self._optimizer,
            strategy,
            averages=self._averages,
            packed=self._data.batching.packed,
        )
        self._progress.log(
            f"model: {self._model.count_params():,} parameters on "
            f"{strategy.num_replicas_in_sync} device(s), "
            f"{'XLA' if optimization.uses_xla(config.training) else 'no XLA'}"
        )
        if frozen:
            trained = self._model.trainable_variables
            count = sum(math.prod(weight.shape) for weight in trained)
            self._progress.log(
                f"frozen: {len(frozen)} weights; {count:,} parameters are trained"
            )

    def _new_meter(
        self, cost: TrainingCost | None = None, sums: MeterSums | None = None
    ) -> Meter:
        sizes = self._model.sizes
        times = 2 if self._config.training.r_drop else 1
        return Meter(
            lambda batch: times * training_flops(sizes, batch),
            cost,
            self._ceiling,
            sums,
        )

    def restore(self, source: Source | None) -> None:
        """Restores the newest undamaged checkpoint, or else the weights of a source."""
        self._best_store.tidy()
        cost = self._model_dir.run_card().get("training_cost", {})
        state, warnings = self._store.restore_newest(cost.get("step", 0))
        for warning in warnings:
            self._progress.warn(f"{warning}")
        if state is None or state.position is None:
            self._initialize(source)
            return
        models.check_fingerprint(
            self._store.path(state.step), state.fingerprints, self._data.vocabulary
        )
        self.first_step = state.step
        self._first_position = DataPosition(**state.position)
        self._scores = dict(state.scores)
        self._scores.pop("best_dev_loss", None)  # of older releases
        self._meter = self._new_meter(
            TrainingCost(**state.cost), MeterSums(**state.unlogged)
        )
        self._progress.log(f"resuming from step {state.step:,}")

    def _initialize(self, source: Source | None) -> None:
        """Loads the weights of a source, and its moments if the settings say so."""
        if source is not None:
            initializer = fine_tuning.Initializer(
                source,
                self._model,
                self._data.vocabulary,
                self._config.training.init_skip,
            )
            for line in initializer.load_weights():
                self._progress.log(line)
            self._optimizer.weights_loaded()
            if self._config.training.init_optimizer:
                self._progress.log(initializer.load_moments(self._optimizer))
            self._evaluates_first = True
        if self._averages is not None:
            self._averages.reset()

    @functools.cached_property
    def _batches(self) -> TrainingBatches:
        """The training batches from the restored position on."""
        return TrainingBatches(
            self._data.train,
            self._data.batching,
            seed=self._config.training.seed,
            start=self._first_position,
            shard=self._shard,
        )

    def complete_evaluation(self) -> None:
        """Makes the evaluation of the restored step if a signal prevented it."""
        step, training = self.first_step, self._config.training
        is_due = step == training.train_steps or step % training.eval_steps == 0
        is_missing = False
        if self._is_chief and step and is_due and self._data.dev is not None:
            records = MetricsFile(self._model_dir.metrics_file).read()
            last = records[-1] if records else {}
            is_missing = last.get("step") != step or "dev_loss" not in last
        # Only the chief's number may differ: then all processes evaluate.
        agreed = wait_for_all(self._strategy, int(is_missing))
        if is_missing or not agreed:
            self._progress.record(step, self._evaluate(step), again=True)

    def train(self) -> None:
        """Trains from the current step of the run to its last, or to an early stop."""
        training = self._config.training
        if self.first_step >= training.train_steps:
            self._progress.log(f"all {training.train_steps:,} steps are done already")
            return
        if self._ends_early():
            return
        profiler = StepProfiler(
            training.profiled_steps(), str(self._model_dir.tensorboard)
        )
        if training.measure_ceiling:
            self._measure_ceiling()
        seconds_before = self._meter.cost.seconds
        with self._watchdog, profiler:
            self._compile_steps()
            if self._evaluates_first:
                self._progress.record(0, self._evaluate(0))
            train_loop(
                self._stepper,
                self._updates(),
                steps=range(self.first_step, training.train_steps),
                intervals=Intervals(
                    log_steps=training.log_steps,
                    eval_steps=training.eval_steps,
                    save_steps=training.save_steps,
                    save_seconds=60 * training.save_minutes,
                ),
                hooks=self._hooks(profiler),
                guard=NonFiniteGuard(
                    self._model_dir.nonfinite if self._is_chief else None,
                    skip=training.on_nonfinite == "skip",
                    load_batches=self._whole_batches,
                    load_metadata=self._describe_failed_update,
                ),
                meter=self._meter,
                progress=self._progress,
            )
        seconds = self._meter.cost.seconds - seconds_before
        self._progress.log(f"trained for {as_duration(seconds)}")

    def _updates(self) -> Iterator[list[tuple[Batch, BatchSize]]]:
        """Yields the batches of each update from the restored step on."""
        batches = iter(self._batches)
        for step in itertools.count(self.first_step + 1):
            yield list(itertools.islice(batches, self._growth.batches(step)))

    def _batches_drawn(self, step: int) -> int:
        """Returns the number of batches of this process's updates up to a step."""
        total = self._growth.batches_before
        return total(step + 1) - total(self.first_step + 1)

    def _whole_batches(self, step: int) -> list[Batch]:
        """Returns again the batches of an update, with all workers' rows."""
        drawn = range(self._batches_drawn(step - 1), self._batches_drawn(step))
        return [self._batches.whole_batch(count) for count in drawn]

    def _compile_steps(self) -> None:
        """Compiles and tries every batch shape; without XLA the largest is enough.

        The largest is tried in an update on two batches, too, where there will be any
        on several. Where programs are not compiled ahead, this only says of what
        shapes they will be.
        """
        shapes = self._data.batching.shapes
        compiles = optimization.uses_xla(self._config.training)
        multi_worker = num_processes(self._strategy) > 1

        def padding_batches() -> Iterator[Batch]:
            for shape in reversed(shapes) if compiles else shapes[-1:]:
                yield self._batches.padding_batch(shape)
                self._watchdog.heartbeat()

        def two_batches() -> Iterator[list[Batch]]:
            if self._growth.has_several:
                yield [self._batches.padding_batch(shapes[-1])] * 2

        to_train, to_evaluate = padding_batches(), self._evaluation.padding_batches()
        ahead = choices_for(current_device()).compiles_ahead or multi_worker
        if compiles and not ahead:
            self._progress.log("compiling each batch shape when its first batch comes")
            self._stepper.allow_only(
                map(batch_shape, to_train), map(batch_shape, to_evaluate)
            )
            return
        preflight(
            self._stepper,
            to_train,
            to_evaluate,
            several=two_batches(),
            only_these=compiles,
            multi_worker=multi_worker,
        )
        self._evaluation.trace_search()

    def _hooks(self, profiler: StepProfiler) -> Hooks:
        def after_step(step: int, sums: object) -> None:
            profiler.after(step, sums)
            self._watchdog.heartbeat()

        return Hooks(
            evaluate=self._evaluate,
            save=self._save,
            measure=self._measure,
            ends_early=self._ends_early,
            prepare=functools.partial(compile_if_new, self._stepper),
            before_step=profiler.before,
            after_step=after_step,
            multi_worker=num_processes(self._strategy) > 1,
        )

    def _measure_ceiling(self) -> None:
        self._progress.log("measuring matrix products …")
        self._ceiling = matrix_product_ceiling(
            self._strategy,
            tokens=_CEILING_ROWS,
            d_model=self._model.sizes["d_model"],
            d_ff=self._model.sizes["d_ff"],
            dtype=self._model.compute_dtype,
        )
        self._progress.log(f"ceiling: {as_flops(self._ceiling)}/s in matrix products")
        self._meter = self._new_meter(self._meter.cost, self._meter.sums)

    def _learning_rate(self, step: int) -> float:
        return float(self._schedule(step - 1))

    def _measure(self, step: int) -> dict[str, float]:
        return {
            "learning_rate": self._learning_rate(step),
            "weight_norm": weight_norm(self._model.trainable_variables),
        }

    def _position(self, step: int) -> dict[str, int]:
        """Returns the position in the data of the batch after a step."""
        drawn = self._batches_drawn(step)
        return self._batches.position_after(drawn).to_fields()

    def _describe_failed_update(self, step: int) -> dict[str, Any]:
        """Returns metadata to store with the batch of an update that failed."""
        return {
            "learning_rate": self._learning_rate(step),
            "position": self._position(step - 1),
            # The norms at detection, which may be a few updates later.
            "weight_norms": norms_by_name(self._model.trainable_variables),
        }

    def _evaluate(self, step: int) -> dict[str, float]:
        """Evaluates on the dev set; saves a checkpoint if it is among the best.

        With moving averages of the weights, it evaluates and saves these.
        """
        averages = self._averages
        with averages.in_use() if averages else contextlib.nullcontext():
            self._scores = self._evaluation.scores(step)
            self._save_if_best(step)
        self._watchdog.heartbeat()
        return self._scores

    def _save_if_best(self, step: int) -> None:
        """Saves a checkpoint of the weights if it is among the --keep_best."""
        training = self._config.training
        loss = monitored_loss(self._scores, training.monitor)
        if not self._is_chief or not math.isfinite(loss):
            return
        count, rank = training.keep_best, self._model_dir.rank_best
        kept = rank(training.monitor)[:count]
        is_among_best = len(kept) < count or loss < kept[-1].loss
        if is_among_best and self._write(self._best_store, step):
            kept = rank(training.monitor)[:count]
            self._best_store.keep_only([best.step for best in kept])

    def _ends_early(self) -> bool:
        """Returns whether --patience ends training, by the lines of metrics.jsonl."""
        training = self._config.training
        if not training.patience:
            return False
        stop = None
        if self._is_chief:
            records = MetricsFile(self._model_dir.metrics_file).read()
            stop = find_early_stop(records, training.monitor, training.patience)
        # Only the chief's number may differ: then all processes stop.
        agreed = wait_for_all(self._strategy, int(stop is not None))
        if stop is not None:
            self._progress.log(stop.describe())
            self._model_dir.update_run_card({"early_stop": stop._asdict()})
        return stop is not None or not agreed

    def _save(self, step: int) -> bool:
        saved = self._write(self._store, step)
        if saved and self._is_chief:
            self._store.prune(self._config.training.keep_checkpoints)
        self._watchdog.heartbeat()
        return saved

    def _write(self, store: CheckpointStore, step: int) -> bool:
        """Writes a checkpoint; a full disk causes a warning, and the run continues."""
        if not self._is_chief:
            return True
        cost = self._meter.cost
        state = CheckpointState(
            step=step,
            position=self._position(step),
            scores=self._scores,
            cost=cost._asdict(),
            unlogged=dataclasses.asdict(self._meter.sums),
            fingerprints={"vocabulary": self._data.vocabulary.sha256},
        )
        try:
            store.save(state)
        except OSError as error:
            self._progress.warn(
                f"no checkpoint at step {step:,}: {error}. Make "
                "room on the disk. Training continues; the previous checkpoint is kept."
            )
            return False
        if store is self._store:  # a resumed run expects the newest step in it
            self._record_cost(step, cost)
        return True

    def _record_cost(self, step: int, cost: TrainingCost) -> None:
        """Writes the training cost of section 6.1 to the run card.

        The paper's estimate is time x devices x sustained FLOP/s of a device. The
        measured ceiling replaces the last two factors.
        """
        devices = self._strategy.num_replicas_in_sync
        metadata = {
            "step": step,
            "hours": cost.seconds / 3600,
            "devices": devices,
            "flops": cost.flops,
            "flops_per_second": cost.flops / max(cost.seconds, 1e-9),
            "ceiling_flops_per_second": self._ceiling,
            "paper_estimate_flops": self._ceiling and self._ceiling * cost.seconds,
        }
        try:
            self._model_dir.update_run_card({"training_cost": metadata})
        except OSError as error:
            self._progress.warn(f"the training cost is not on the run card: {error}")
