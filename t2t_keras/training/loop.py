"""The outer loop: steps, and what is due between them, in the order of the lines."""

import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.training.progress import Progress, as_duration
from t2t_keras.training.step import Stepper, StepSums
from t2t_keras.typing import Batch


class Interrupted(Exception):  # noqa: N818 - it is no error of anything
    """A signal asked the loop to stop, and a checkpoint was asked for.

    Attributes:
        signal_number: Which signal.
        step: Updates made.
        saved: Whether all of them are saved; not so if the disk is full.
    """

    def __init__(self, signal_number: int, step: int, saved: bool):
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number
        self.step = step
        self.saved = saved


@dataclasses.dataclass(frozen=True)
class Intervals:
    """How often things are due.

    Attributes:
        log_steps: Updates between two lines of progress.
        eval_steps: Updates between two evaluations.
        save_steps: Updates between two checkpoints; 0 to go by the clock.
        save_seconds: Seconds between two checkpoints where `save_steps` is 0.
    """

    log_steps: int
    eval_steps: int
    save_steps: int
    save_seconds: float


@dataclasses.dataclass
class _Since:
    """Sums over the steps since the last line of progress.

    They stay tensors until someone asks: a number taken after every step would
    make an accelerator wait for Python.
    """

    loss_sum: Any = 0.0
    token_count: Any = 0.0
    gradient_norms: Any = 0.0
    source_tokens: int = 0
    start_seconds: float = dataclasses.field(default_factory=lambda: time.monotonic())

    def add(self, batch: Batch, sums: StepSums) -> None:
        self.loss_sum += sums.losses.loss_sum
        self.token_count += sums.losses.token_count
        self.gradient_norms += sums.gradient_norm
        self.source_tokens += int((batch["encoder_input_tokens"] != 0).sum())

    def check_finite(self, step: int) -> None:
        """Raises `UserError` if any step's loss or gradient was not finite."""
        loss_sum, norms = float(self.loss_sum), float(self.gradient_norms)
        if not math.isfinite(loss_sum) or not math.isfinite(norms):
            raise UserError(
                f"Shortly before step {step} the loss or its gradient stopped being a "
                f"finite number (loss sum {loss_sum}, gradient norms {norms}). The "
                "checkpoints are from before that. Train in a new --model_dir with a "
                "lower --learning_rate_scale or a longer --warmup_steps."
            )


def train_loop(
    stepper: Stepper,
    batches: Iterable[Batch],
    *,
    steps: range,
    intervals: Intervals,
    evaluate: Callable[[int], None],
    save: Callable[[int], bool],
    learning_rate: Callable[[int], float],
    progress: Progress,
) -> None:
    """Trains from `steps.start` to `steps.stop` updates.

    Args:
        stepper: Makes an update.
        batches: Global batches as NumPy arrays, from where training goes on.
        steps: Updates already made, and updates to have made at the end.
        intervals: How often things are due.
        evaluate: Called with the step when an evaluation is due, and at the end.
        save: Called with the step when a checkpoint is due, at the end, and when a
            signal asks to stop. It is called after `evaluate`. Returns whether
            the checkpoint could be written.
        learning_rate: Returns the rate of an update, for the log.
        progress: Where lines and TensorBoard's scalars go.

    Raises:
        Interrupted: If SIGINT or SIGTERM came; `save` has been called by then.
        UserError: If the loss is not finite any more.
    """
    since = _Since()
    saved_at = time.monotonic()
    # First in `zip`: when the numbers end, no batch is asked for in vain.
    numbers = range(steps.start + 1, steps.stop + 1)
    with _deferred_signals() as received:
        for step, batch in zip(numbers, batches, strict=False):
            sums = stepper.train(batch)
            since.add(batch, sums)
            last, stop = step == steps.stop, bool(received)
            eval_due = last or step % intervals.eval_steps == 0
            save_due = last or _is_due(step, intervals, time.monotonic() - saved_at)
            if stop or eval_due or save_due:
                # Weights that went wrong never replace a checkpoint.
                since.check_finite(step)
            if last or step % intervals.log_steps == 0:
                since.check_finite(step)
                _log(step, since, sums, learning_rate(step), steps.stop, progress)
                since = _Since()
            if eval_due and not stop:
                start_seconds = time.monotonic()
                evaluate(step)
                since.start_seconds += time.monotonic() - start_seconds
            if save_due or stop:
                saved = save(step)
                saved_at = time.monotonic()
                # After the last save, a signal that came since `stop` was asked.
                if stop or (last and received):
                    raise Interrupted(received[0], step, saved)
                if last and not saved:
                    raise UserError(
                        f"The last checkpoint, of step {step}, could not be written. "
                        "Make room on the disk and give the same command again: it "
                        "goes on from the checkpoint before."
                    )


def _is_due(step: int, intervals: Intervals, seconds: float) -> bool:
    if intervals.save_steps:
        return step % intervals.save_steps == 0
    return seconds >= intervals.save_seconds


def _log(
    step: int,
    since: _Since,
    sums: StepSums,
    learning_rate: float,
    last_step: int,
    progress: Progress,
) -> None:
    seconds = time.monotonic() - since.start_seconds
    loss = float(since.loss_sum) / max(float(since.token_count), 1.0)
    rate = float(since.token_count) / seconds
    progress.say(
        f"step {step:,}/{last_step:,}  loss {loss:.3f}  rate {learning_rate:.2e}  "
        f"{rate:,.0f} target tokens/s  "
        f"left {as_duration(progress.seconds_left(step))}"
    )
    progress.scalars(
        step,
        {
            "loss": loss,
            "learning_rate": learning_rate,
            "gradient_norm": float(sums.gradient_norm),
            "target_tokens_per_second": rate,
            "source_tokens_per_second": since.source_tokens / seconds,
        },
    )


@contextmanager
def _deferred_signals() -> Iterator[list[int]]:
    """Yields a list that SIGINT and SIGTERM are added to instead of acting at once.

    A second SIGINT does act at once: whoever presses Ctrl-C twice means it.
    """
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
