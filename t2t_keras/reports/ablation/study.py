"""Runs an ablation: what is done is kept, what is missing is run."""

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records.manifest import MANIFEST_FILE
from t2t_keras.reports.ablation.children import Children, last_line
from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.reports.ablation.plan import Row, Run
from t2t_keras.reports.ablation.results import Ablation, collect, run_result
from t2t_keras.reports.ablation.shares import ALL, Share
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.training.progress import as_duration

# Between two lines about a run that goes on.
_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_LOOKS = 2.0


class Study:
    """All runs of an ablation, in one folder.

    Args:
        rows: The base first.
        runs: In the order in which to run them.
        output: The folder.
        given: Arguments that hold for every row.
        say: Takes a line for a person.
        write: Takes what there is, after each run.
        shares: What each of several runs at a time may use of the machine.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        runs: Sequence[Run],
        output: Path,
        given: Sequence[str],
        say: Callable[[str], object],
        write: Callable[[Ablation], object],
        shares: Sequence[Share] = (ALL,),
    ):
        self._rows = rows
        self._runs = runs
        self._output = output
        self._given = list(given)
        self._say = say
        self._write = write
        self._at_once = len(shares)
        self._shares: queue.SimpleQueue[Share] = queue.SimpleQueue()
        for share in shares:
            self._shares.put(share)
        self._lock = threading.Lock()
        self._waiting: list[Run] = []
        self._failures: list[tuple[str, int, str]] = []
        self._seconds_per_unit: float | None = None

    def run(self, children: Children) -> Ablation:
        """Runs what is missing and returns what there is then.

        A run that fails does not stop the others; a signal does.

        Raises:
            UserError: If the corpus cannot be prepared, or a folder holds a run of
                other settings.
        """
        missing = [run for run in self._runs if run_result(run) is None]
        done = len(self._runs) - len(missing)
        if done:
            self._say(f"{done} of {len(self._runs)} runs are done already")
        if missing:
            records = self._prepared(children)
            self._waiting = list(missing)
            with ThreadPoolExecutor(self._at_once) as pool:
                list(pool.map(lambda run: self._one(children, run, records), missing))
        found = self._found()
        self._write(found)
        return found

    def _found(self) -> Ablation:
        return collect(self._rows, self._runs, self._failures)

    def _prepared(self, children: Children) -> str:
        """Returns the records of the corpus, which all runs share, made if need be."""
        base = self._rows[0]
        if base.config.data.records:
            return base.config.data.records
        records = self._output / "records"
        if not (records / MANIFEST_FILE).is_file():
            self._say("preparing the corpus …")
            log = self._output / "prepare.log"
            status = children.run(
                "prepare",
                [f"--flagfile={base.flagfile}", *self._given, f"--output={records}"],
                log,
            )
            if status and children.signal_number is None:
                raise UserError(
                    f"The corpus could not be prepared: {last_line(log)}\n"
                    f"All that was said is in {log}."
                )
        return str(records)

    def _one(self, children: Children, run: Run, records: str) -> None:
        if children.signal_number is not None:
            return
        share = self._shares.get()
        self._announce(run)
        begin = time.monotonic()
        try:
            self._wait_for_lock(children, run)
            begin = time.monotonic()
            status = self._train(children, run, records, share)
            how, said = f"failed with status {status}", last_line(run.log)
        except OSError as error:  # its folder or its log cannot be written, say
            status, how, said = 1, "failed", str(error)
        finally:
            self._shares.put(share)
        with self._lock:
            if status and children.signal_number is None:
                self._tell_failure(run, how, said)
            elif not status:
                self._tell(run, time.monotonic() - begin)
            self._write(self._found())

    def _train(self, children: Children, run: Run, records: str, share: Share) -> int:
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
            _Watcher(run, self._say).look,
            share,
        )

    def _announce(self, run: Run) -> None:
        """Says what begins, and when all may be done."""
        with self._lock:
            number = len(self._runs) - len(self._waiting) + 1
            left = sum(map(_size, self._waiting)) / self._at_once
            self._waiting.remove(run)
            time_left = ""
            if self._seconds_per_unit is not None:
                time_left = f"; {as_duration(self._seconds_per_unit * left)} left"
        self._say(
            f"run {number} of {len(self._runs)}: {run.title}, {run.steps:,} steps"
            + time_left
        )

    def _tell(self, run: Run, seconds: float) -> None:
        """Says what a run came to that ended well."""
        result = run_result(run)
        if result is None:
            self._tell_failure(run, "left no score", last_line(run.log))
            return
        self._seconds_per_unit = seconds / _size(run)
        self._say(
            f"  {run.title}: perplexity {result.perplexity:.3f}, BLEU "
            f"{result.bleu:.2f}, in {as_duration(seconds)}"
        )

    def _tell_failure(self, run: Run, how: str, said: str) -> None:
        self._failures.append((run.row.name, run.seed, said))
        self._say(f"  {run.title}: {how}: {said}\n  see {run.log}")

    def _wait_for_lock(self, children: Children, run: Run) -> None:
        """Waits for a process that trains there: one that outlived a killed parent."""
        said = False
        while children.signal_number is None:
            try:
                with ModelDir(run.model_dir).lock(self._say):
                    return
            except UserError as error:
                if not said:
                    self._say(f"  {run.title}: waiting: {error}")
                said = True
                time.sleep(_SECONDS_BETWEEN_LOOKS)


class _Watcher:
    """Says now and then how far a run is."""

    def __init__(self, run: Run, say: Callable[[str], object]):
        self._run = run
        self._say = say
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
        self._step = 0

    def look(self) -> None:
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
            self._say(f"  {self._run.title}: step {step:,}/{self._run.steps:,}{loss}")


def _size(run: Run) -> float:
    """Returns what a run takes, in no particular unit, for the time that is left."""
    config = run.row.config
    parameters = parameter_count(config.model, config.data.vocabulary_size)
    return float(run.steps * parameters)
