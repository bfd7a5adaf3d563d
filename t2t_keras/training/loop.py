"""The outer loop: steps, and what is due between them, in the order of the lines."""

import dataclasses
import signal
import time
from collections.abc import Callable, Iterable, Mapping

from t2t_keras.errors import UserError
from t2t_keras.files.signals import Interrupted, defer_signals
from t2t_keras.training.meter import Meter, Update, read_updates
from t2t_keras.training.nonfinite import NonFiniteGuard
from t2t_keras.training.progress import Progress, as_duration, as_flops
from t2t_keras.training.step import Stepper
from t2t_keras.training.update import StepSums
from t2t_keras.typing import Batch, BatchSize

# Updates whose numbers are not read yet: the latest that a bad one is noticed.
MOST_UNREAD = 100
# Longest to be silent, where `log_steps` is far away.
SILENT_SECONDS = 5.0
# Share of the time that input may be waited for without a word.
WORTH_SAYING = 0.05


class TrainingInterrupted(Interrupted):
    """A signal stopped the loop after a checkpoint was asked for.

    Attributes:
        signal_number: Which signal.
        step: Updates made.
        saved: Whether all of them are saved; not so if the disk is full.
    """

    def __init__(self, signal_number: int, step: int, saved: bool):
        super().__init__(signal_number)
        self.step = step
        self.saved = saved


@dataclasses.dataclass(frozen=True)
class Intervals:
    """How often things are due.

    Attributes:
        log_steps: Updates between two records of how training goes, each with its
            line of progress; shorter lines come every few seconds besides.
        eval_steps: Updates between two evaluations.
        save_steps: Updates between two checkpoints; 0 to go by the clock.
        save_seconds: Seconds between two checkpoints where `save_steps` is 0.
    """

    log_steps: int
    eval_steps: int
    save_steps: int
    save_seconds: float


@dataclasses.dataclass(frozen=True)
class Hooks:
    """What the loop calls, with the step it is at.

    Attributes:
        evaluate: Called when an evaluation is due, and at the end; returns scores.
        save: Called when a checkpoint is due, at the end, and when a signal asks to
            stop. It is called after `evaluate`. Returns whether the checkpoint could
            be written.
        measure: Returns further numbers for a line of progress; "learning_rate" is
            one of them.
        before_step: Called before each update, with its number.
        after_step: Called after each, with its number and its sums.
        together: Whether other processes make the same steps, so that all have to
            stop at the same one.
    """

    evaluate: Callable[[int], Mapping[str, float]]
    save: Callable[[int], bool]
    measure: Callable[[int], Mapping[str, float]]
    before_step: Callable[[int], None] = lambda _: None
    after_step: Callable[[int, StepSums], None] = lambda *_: None
    together: bool = False


def train_loop(
    stepper: Stepper,
    batches: Iterable[tuple[Batch, BatchSize]],
    *,
    steps: range,
    intervals: Intervals,
    hooks: Hooks,
    guard: NonFiniteGuard,
    meter: Meter,
    progress: Progress,
) -> None:
    """Trains from `steps.start` to `steps.stop` updates.

    Args:
        stepper: Makes an update.
        batches: As NumPy arrays, from where training goes on; of several processes,
            the rows of this one. And the size of each with all rows.
        steps: Updates already made, and updates to have made at the end.
        intervals: How often things are due.
        hooks: What is called in between.
        guard: Looks at every update before anything is kept that came of it.
        meter: Adds updates up.
        progress: Where lines and numbers go.

    Raises:
        TrainingInterrupted: If SIGINT or SIGTERM came; a checkpoint was asked for.
        UserError: If the guard stops, or the last checkpoint cannot be written.
    """
    made: list[Update] = []
    saved_at = time.monotonic()
    # First in `zip`: when the numbers end, no batch is asked for in vain.
    numbers = range(steps.start + 1, steps.stop + 1)
    meter.start()
    progress.start(steps.start)
    with defer_signals() as signals:
        for step, (batch, size) in zip(numbers, meter.timed(batches), strict=False):
            hooks.before_step(step)
            last = step == steps.stop
            log_due = last or step % intervals.log_steps == 0
            sums = stepper.train(batch, stop=bool(signals), timed=log_due)
            hooks.after_step(step, sums)
            made.append(Update(step, stepper.computed_size(size), sums))
            # A number is waited for only where others have a say in it.
            stop = float(sums.stops) > 0 if hooks.together else bool(signals)
            bad = hooks.together and bool(float(sums.skipped))
            eval_due = (last or step % intervals.eval_steps == 0) and not stop
            save_due = last or _is_due(step, intervals, time.monotonic() - saved_at)
            values: dict[str, float] = {}
            awaited = stop or bad or log_due or eval_due or save_due
            if awaited or len(made) == MOST_UNREAD:
                # Weights that went wrong never replace a checkpoint.
                _take(made, guard, meter)
            if log_due:
                values |= {**meter.values(), **hooks.measure(step)}
                progress.log(_line(step, steps.stop, values, progress))
            elif progress.silent_seconds() >= SILENT_SECONDS:
                progress.log(_short_line(step, steps.stop, sums, progress))
            if eval_due:
                with meter.paused():
                    values |= hooks.evaluate(step)
            progress.record(step, values)
            if save_due or stop:
                with meter.paused():
                    saved = hooks.save(step)
                saved_at = time.monotonic()
                # After the last save, a signal that came since `stop` was asked.
                if stop or (last and signals):
                    number = (signals.received or [signal.SIGTERM])[0]
                    raise TrainingInterrupted(number, step, saved)
                if last and not saved:
                    raise _not_saved(step)


def _take(made: list[Update], guard: NonFiniteGuard, meter: Meter) -> None:
    """Reads the numbers of updates, lets the guard see each, and adds them up."""
    for update in read_updates(made):
        guard.check(update)
        meter.add(update)
    made.clear()


def _not_saved(step: int) -> UserError:
    return UserError(
        f"The last checkpoint, of step {step}, could not be written. Make room on the "
        "disk and give the same command again: it goes on from the checkpoint before."
    )


def _is_due(step: int, intervals: Intervals, seconds: float) -> bool:
    if intervals.save_steps:
        return step % intervals.save_steps == 0
    return seconds >= intervals.save_seconds


def _line(
    step: int, last_step: int, values: Mapping[str, float], progress: Progress
) -> str:
    """Returns a line of progress: what is always worth reading, and what went wrong."""
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
    if waited >= WORTH_SAYING:
        line += f"  waits {waited:.0%} for input"
    if values["skipped"]:
        line += f"  skipped {values['skipped']:.0f}"
    return line


def _short_line(step: int, last_step: int, sums: StepSums, progress: Progress) -> str:
    """Returns a line of progress with the loss of a single update.

    The number is waited for, which needs nothing of other processes that they are not
    doing already.
    """
    losses = sums.losses
    loss = float(losses.loss_sum) / max(float(losses.token_count), 1.0)
    left = as_duration(progress.seconds_left(step))
    return f"step {step:,}/{last_step:,}  loss {loss:.3f}  left {left}"
