"""Ablation runner: finished runs are kept, missing ones are run."""

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import explain
from t2t_keras.input_pipeline.records.manifest import MANIFEST_FILE
from t2t_keras.reports.ablation.children import Children, last_line
from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.reports.ablation.plan import RowPlan, RunPlan
from t2t_keras.reports.ablation.resources import ALL, RunResources
from t2t_keras.reports.ablation.results import Ablation, collect, run_result
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.training.progress import as_duration

logger = logging.getLogger(__name__)

# Intervals of progress lines and of polling a lock.
_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_LOOKS = 2.0


class Study:
    """All runs of an ablation, in one folder.

    Args:
        rows: Rows, base first.
        runs: Runs, in the order in which to run them.
        output: The folder.
        given: Arguments that hold for every row.
        write: Function that writes the results so far, called after each run.
        resources: Resources of each of the runs at a time.
    """

    def __init__(
        self,
        rows: Sequence[RowPlan],
        runs: Sequence[RunPlan],
        output: Path,
        given: Sequence[str],
        write: Callable[[Ablation], object],
        resources: Sequence[RunResources] = (ALL,),
    ):
        self._rows = rows
        self._runs = runs
        self._output = output
        self._given = list(given)
        self._write = write
        self._at_once = len(resources)
        self._free_resources: queue.SimpleQueue[RunResources] = queue.SimpleQueue()
        for part in resources:
            self._free_resources.put(part)
        self._lock = threading.Lock()
        self._waiting: list[RunPlan] = []
        self._failures: list[tuple[str, int, str]] = []
        self._seconds_per_unit: float | None = None

    def run(self, children: Children) -> Ablation:
        """Runs the missing runs and returns all results.

        A run that fails does not stop the others; a signal does.

        Raises:
            UserError: If the corpus cannot be prepared, or a folder holds a run of
                other settings.
        """
        missing = [run for run in self._runs if run_result(run) is None]
        done = len(self._runs) - len(missing)
        if done:
            logger.info(f"{done} of {len(self._runs)} runs are done already")
        if missing:
            records = self._prepare_records(children)
            self._waiting = list(missing)
            with ThreadPoolExecutor(self._at_once) as pool:
                list(pool.map(lambda run: self._one(children, run, records), missing))
        ablation = self._collect()
        self._write(ablation)
        return ablation

    def _collect(self) -> Ablation:
        return collect(self._rows, self._runs, self._failures)

    def _prepare_records(self, children: Children) -> str:
        """Returns the records folder of all runs, prepared if missing."""
        base = self._rows[0]
        if base.config.data.records:
            return base.config.data.records
        records = self._output / "records"
        if not (records / MANIFEST_FILE).is_file():
            logger.info("preparing the corpus …")
            log = self._output / "prepare.log"
            status = children.run(
                "prepare",
                [f"--flagfile={base.flagfile}", *self._given, f"--output={records}"],
                log,
            )
            if status and children.signal_number is None:
                raise UserError(
                    f"The corpus could not be prepared: {last_line(log)}\n"
                    f"Its whole output is in {log}."
                )
        return str(records)

    def _one(self, children: Children, run: RunPlan, records: str) -> None:
        if children.signal_number is not None:
            return
        part = self._free_resources.get()
        self._log_start(run)
        begin = time.monotonic()
        try:
            self._wait_for_lock(children, run)
            begin = time.monotonic()
            status = self._train(children, run, records, part)
            reason, message = f"failed with status {status}", last_line(run.log)
        except OSError as error:  # such as a folder or log that cannot be written
            status, reason, message = 1, "failed", explain(error)
        finally:
            self._free_resources.put(part)
        with self._lock:
            if status and children.signal_number is None:
                self._log_failure(run, reason, message)
            elif not status:
                self._log_result(run, time.monotonic() - begin)
            self._write(self._collect())

    def _train(
        self, children: Children, run: RunPlan, records: str, part: RunResources
    ) -> int:
        """Trains a run and returns the exit status."""
        return children.run(
            "train",
            [
                f"--flagfile={run.row.flagfile}",
                *self._given,
                f"--seed={run.seed}",
                f"--records={records}",
                f"--model_dir={run.model_dir}",
                "--score_split=dev",
                "--noexport_at_end",
            ],
            run.log,
            _Watcher(run).poll,
            part,
        )

    def _log_start(self, run: RunPlan) -> None:
        """Logs the start of a run, and the estimated time that is left."""
        with self._lock:
            number = len(self._runs) - len(self._waiting) + 1
            left = sum(map(_size, self._waiting)) / self._at_once
            self._waiting.remove(run)
            time_left = ""
            if self._seconds_per_unit is not None:
                time_left = f"; {as_duration(self._seconds_per_unit * left)} left"
        logger.info(
            f"run {number} of {len(self._runs)}: {run.title}, {run.steps:,} steps"
            + time_left
        )

    def _log_result(self, run: RunPlan, seconds: float) -> None:
        """Logs the result of a run that ended well."""
        result = run_result(run)
        if result is None:
            self._log_failure(run, "left no score", last_line(run.log))
            return
        self._seconds_per_unit = seconds / _size(run)
        logger.info(
            f"  {run.title}: perplexity {result.perplexity:.3f}, BLEU "
            f"{result.bleu:.2f}, in {as_duration(seconds)}"
        )

    def _log_failure(self, run: RunPlan, reason: str, message: str) -> None:
        self._failures.append((run.row.name, run.seed, message))
        logger.info(f"  {run.title}: {reason}: {message}\n  see {run.log}")

    def _wait_for_lock(self, children: Children, run: RunPlan) -> None:
        """Waits for a run in the folder that outlived a killed parent."""
        logged = False
        while children.signal_number is None:
            try:
                with ModelDir(run.model_dir).lock():
                    return
            except UserError as error:
                if not logged:
                    logger.info(f"  {run.title}: waiting: {error}")
                logged = True
                time.sleep(_SECONDS_BETWEEN_LOOKS)


class _Watcher:
    """Periodic log of a run's progress."""

    def __init__(self, run: RunPlan):
        self._run = run
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
        self._step = 0

    def poll(self) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
        file = ModelDir(self._run.model_dir).metrics_file
        try:
            last = json.loads(file.read_bytes().splitlines()[-1])
            step = last["step"]
        except (OSError, ValueError, LookupError):
            return  # not one line yet
        if step > self._step:
            self._step = step
            loss = f", loss {last['loss']:.3f}" if "loss" in last else ""
            logger.info(f"  {self._run.title}: step {step:,}/{self._run.steps:,}{loss}")


def _size(run: RunPlan) -> float:
    """Returns the relative cost of a run, to estimate the time that is left."""
    config = run.row.config
    parameters = parameter_count(config.model, config.data.vocabulary_size)
    return float(run.steps * parameters)
