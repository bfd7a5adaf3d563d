"""Training loop, with logging, evaluations and checkpoints in between; its watchdog."""

import contextlib
import dataclasses
import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from t2t_keras.errors import UserError
from t2t_keras.files.signals import Interrupted, defer_signals
from t2t_keras.training.meter import Meter, Update, read_updates
from t2t_keras.training.nonfinite import NonFiniteGuard
from t2t_keras.training.progress import Progress, as_duration, as_flops
from t2t_keras.training.step import Stepper
from t2t_keras.training.update import StepSums
from t2t_keras.typing import Batch, BatchSize

# Maximum number of updates whose sums are not read yet, and so the longest delay until
# a non-finite update is noticed.
MAX_PENDING_UPDATES = 100
# Longest time without a progress line between two log steps.
SILENT_SECONDS = 5.0
# Least fraction of a step spent waiting for input that a progress line mentions.
MIN_REPORTED_WAIT = 0.05


class TrainingInterrupted(Interrupted):
    """A signal stopped the loop, after a checkpoint was attempted.

    Attributes:
        signal_number: Number of the signal.
        step: Number of updates so far.
        saved: Whether all of them are saved; False if the disk is full.
    """

    def __init__(self, signal_number: int, step: int, saved: bool):
        super().__init__(signal_number)
        self.step = step
        self.saved = saved


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Intervals between log records, evaluations and checkpoints.

    Attributes:
        log_steps: Updates between two records of the metrics, each with a progress
            line; shorter lines follow every few seconds in between.
        eval_steps: Updates between two evaluations.
        save_steps: Updates between two checkpoints; 0 for `save_seconds` instead.
        save_seconds: Seconds between two checkpoints where `save_steps` is 0.
    """

    log_steps: int
    eval_steps: int
    save_steps: int
    save_seconds: float


@dataclasses.dataclass(frozen=True)
class Hooks:
    """Callbacks of the loop, which get the number of the step.

    Attributes:
        evaluate: Called when an evaluation is due, and at the end; returns scores.
        save: Called when a checkpoint is due, at the end, and after a signal to stop;
            after `evaluate`. Returns whether the checkpoint was written.
        measure: Returns further values of a record; "learning_rate" is required.
        ends_early: Called after the values of an evaluation are recorded; returns
            whether training ends there (early stopping).
        prepare: Called before each update with its batches, while the meter is paused.
        before_step: Called before each update, with its number.
        after_step: Called after each update, with its number and its sums.
        multi_worker: Whether other processes make the same steps, so that all have to
            stop at the same one.
    """

    evaluate: Callable[[int], Mapping[str, float]]
    save: Callable[[int], bool]
    measure: Callable[[int], Mapping[str, float]]
    ends_early: Callable[[], bool] = lambda: False
    prepare: Callable[[Sequence[Batch]], None] = lambda _: None
    before_step: Callable[[int], None] = lambda _: None
    after_step: Callable[[int, StepSums], None] = lambda *_: None
    multi_worker: bool = False


def train_loop(
    stepper: Stepper,
    updates: Iterable[Sequence[tuple[Batch, BatchSize]]],
    *,
    steps: range,
    intervals: Intervals,
    hooks: Hooks,
    guard: NonFiniteGuard,
    meter: Meter,
    progress: Progress,
) -> None:
    """Trains from `steps.start` to `steps.stop` updates, or until `hooks.ends_early`.

    Args:
        stepper: Makes an update.
        updates: Batches of each update, from the position where training resumes:
            this process's rows as NumPy arrays, each with the size of the whole batch.
        steps: Number of updates so far, and at the end.
        intervals: Intervals between records, evaluations and checkpoints.
        hooks: Callbacks.
        guard: Checks every update before a checkpoint of its weights is written.
        meter: Accumulates the sums of the updates.
        progress: Logs lines and records values.

    Raises:
        TrainingInterrupted: After a signal, with a checkpoint if possible.
        UserError: If the guard stops, or the last checkpoint cannot be written.
    """
    unread: list[Update] = []
    saved_at = time.monotonic()
    # First in `zip`: no batch is fetched after the last number.
    numbers = range(steps.start + 1, steps.stop + 1)
    meter.start()
    progress.start(steps.start, steps.stop)
    with defer_signals() as signals:
        for step, sized in zip(numbers, meter.timed(updates), strict=False):
            batches, sizes = zip(*sized, strict=True)
            with meter.paused():
                hooks.prepare(batches)
            hooks.before_step(step)
            last = step == steps.stop
            log_due = last or step % intervals.log_steps == 0
            sums = stepper.train(*batches, stop=bool(signals), timed=log_due)
            hooks.after_step(step, sums)
            sizes = tuple(map(stepper.computed_size, sizes))
            unread.append(Update(step, sizes, sums))
            # Waits for a number only with other processes, which all have to agree.
            stop = float(sums.stops) > 0 if hooks.multi_worker else bool(signals)
            skipped = hooks.multi_worker and bool(float(sums.skipped))
            eval_due = (last or step % intervals.eval_steps == 0) and not stop
            save_due = last or _is_due(step, intervals, time.monotonic() - saved_at)
            values: dict[str, float] = {}
            must_read = stop or skipped or log_due or eval_due or save_due
            if must_read or len(unread) == MAX_PENDING_UPDATES:
                # Before saving: non-finite weights never replace a checkpoint.
                _read(unread, guard, meter)
            if log_due:
                values |= {**meter.values(), **hooks.measure(step)}
                progress.log(_line(step, steps.stop, values, progress))
            elif progress.silent_seconds() >= SILENT_SECONDS:
                progress.log(_short_line(step, steps.stop, sums, progress))
            if eval_due:
                with meter.paused():
                    values |= hooks.evaluate(step)
            progress.record(step, values)
            last = last or (eval_due and hooks.ends_early())
            if save_due or stop or last:
                with meter.paused():
                    saved = hooks.save(step)
                saved_at = time.monotonic()
                # After the last save, also a signal that arrived since `stop` was set.
                if stop or (last and signals):
                    number = (signals.received or [signal.SIGTERM])[0]
                    raise TrainingInterrupted(number, step, saved)
                if last and not saved:
                    raise _save_error(step)
            if last:
                return


def _read(unread: list[Update], guard: NonFiniteGuard, meter: Meter) -> None:
    """Reads the sums of updates, and passes each to the guard and to the meter."""
    for update in read_updates(unread):
        guard.check(update)
        meter.add(update)
    unread.clear()


def _save_error(step: int) -> UserError:
    return UserError(
        f"The last checkpoint, of step {step}, could not be written. Make room on the "
        "disk and run the same command again: it resumes from the checkpoint before."
    )


def _is_due(step: int, intervals: Intervals, seconds: float) -> bool:
    if intervals.save_steps:
        return step % intervals.save_steps == 0
    return seconds >= intervals.save_seconds


def _line(
    step: int, last_step: int, values: Mapping[str, float], progress: Progress
) -> str:
    """Returns a progress line; waits and skipped updates only where there are some."""
    line = (
        f"step {step:,}/{last_step:,}  loss {values['loss']:.3f}  "
        f"rate {values['learning_rate']:.2e}  "
        f"{values['target_tokens_per_second']:,.0f} target tokens/s  "
        f"{as_flops(values['flops_per_second'])}/s"
    )
    if "ceiling_share" in values:
        line += f" ({values['ceiling_share']:.0%})"
    line += f"  left {as_duration(progress.seconds_left(step))}"
    waited = values["input_seconds"] / values["step_seconds"]
    if waited >= MIN_REPORTED_WAIT:
        line += f"  waits {waited:.0%} for input"
    if values["skipped"]:
        line += f"  skipped {values['skipped']:.0f}"
    return line


def _short_line(step: int, last_step: int, sums: StepSums, progress: Progress) -> str:
    """Returns a progress line with the loss of a single update.

    Waits for that update, which needs no further work of other processes.
    """
    losses = sums.losses
    loss = float(losses.loss_sum) / max(float(losses.token_count), 1.0)
    left = as_duration(progress.seconds_left(step))
    return f"step {step:,}/{last_step:,}  loss {loss:.3f}  left {left}"


class Watchdog:
    """Dumps the stacks of all threads if there is no heartbeat for some time.

    A lost network file system, a collective operation that waits for a dead worker and
    a deadlock look alike from outside. The stacks show which it is. The user decides
    whether to wait longer or to stop, so the watchdog stops nothing. After another
    heartbeat it can report again.

    Used as a context, in which it is active.

    Args:
        seconds: Seconds without a heartbeat until stacks are written; 0 for never.
        stacks_file: File that they are appended to, after `stream`.
        stream: First place that they are written to. Default: standard error. It must
            have a file descriptor: C code writes the stacks, which needs no lock.
    """

    def __init__(self, seconds: float, stacks_file: Path, stream: TextIO | None = None):
        self._seconds = seconds
        self._stacks_file = stacks_file
        self._stream = stream
        self._last_heartbeat = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="watchdog", daemon=True
        )

    def __enter__(self) -> "Watchdog":
        self.heartbeat()
        if self._seconds:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._seconds:
            self._thread.join()

    def heartbeat(self) -> None:
        """Notes that a step, evaluation batch or checkpoint is finished."""
        self._last_heartbeat = time.monotonic()

    def _watch(self) -> None:
        reported: float | None = None
        while True:
            last = self._last_heartbeat
            wait = last + self._seconds - time.monotonic()
            if wait <= 0 and last != reported:
                reported = last
                self._report()
            # After a report, check regularly for a new heartbeat.
            if self._ended.wait(wait if wait > 0 else self._seconds / 4):
                return

    def _report(self) -> None:
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        text = (
            f"warning: {when}: no step, evaluation batch or checkpoint was finished "
            f"for {self._seconds / 60:.3g} minutes. Training is not stopped. What "
            f"each thread is doing (kept in {self._stacks_file} too):\n"
        )
        self._dump(text, self._stream or sys.stderr)
        # After the stream, for the disk may be what hangs; a full disk is ignored.
        with contextlib.suppress(OSError), open(self._stacks_file, "a") as file:
            self._dump(text, file)

    def _dump(self, text: str, stream: TextIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()
            faulthandler.dump_traceback(stream, all_threads=True)
