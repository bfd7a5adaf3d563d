"""What updates add up to, between two lines of progress and over the whole run."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from t2t_keras.training.flops import TrainingCost
from t2t_keras.training.update import StepSums
from t2t_keras.typing import BatchSize

_Element = TypeVar("_Element")


class MadeUpdate(NamedTuple):
    """An update whose numbers nobody has asked for yet: they are still tensors."""

    step: int
    size: BatchSize
    sums: StepSums


class Update(NamedTuple):
    """An update, in numbers.

    Attributes:
        step: Its number, from 1.
        size: Of its batch.
        loss_sum: Smoothed loss in nats, summed over tokens.
        log_loss_sum: -log p of the true tokens, summed.
        token_count: Target tokens.
        gradient_norm: Of the mean gradient over tokens.
        finite: Whether it was made; not so where loss or gradient were not finite.
        reduce_seconds: From the gradients of a replica to the sum of all; 0 if not
            timed.
    """

    step: int
    size: BatchSize
    loss_sum: float
    log_loss_sum: float
    token_count: float
    gradient_norm: float
    finite: bool
    reduce_seconds: float = 0.0


def read_updates(made: Sequence[MadeUpdate]) -> list[Update]:
    """Returns the numbers of some updates, waiting once for all of them.

    A number taken after every step would make an accelerator wait for Python.
    """
    if not made:
        return []
    columns = (
        [sums.losses.loss_sum for _, _, sums in made],
        [sums.losses.log_loss_sum for _, _, sums in made],
        [sums.losses.token_count for _, _, sums in made],
        [sums.gradient_norm for _, _, sums in made],
        [sums.finite for _, _, sums in made],
        [sums.reduce_seconds for _, _, sums in made],
    )
    rows = np.stack([tf.stack(column).numpy() for column in columns], axis=1)
    updates = []
    for (step, size, _), numbers in zip(made, rows.tolist(), strict=True):
        loss_sum, log_loss_sum, token_count, norm, finite, seconds = numbers
        updates.append(
            Update(
                step,
                size,
                loss_sum,
                log_loss_sum,
                token_count,
                norm,
                bool(finite),
                seconds,
            )
        )
    return updates


class Meter:
    """Adds up updates, and the time that passes.

    Args:
        flops_of: Returns the FLOPs of an update on a batch of a size.
        cost: What the run has cost before, None for nothing.
        ceiling: FLOP/s of matrix products alone, None where not measured.
    """

    def __init__(
        self,
        flops_of: Callable[[BatchSize], float],
        cost: TrainingCost | None = None,
        ceiling: float | None = None,
    ):
        self._flops_of = flops_of
        self._ceiling = ceiling
        self._cost = cost or TrainingCost()
        self._forget()

    @property
    def cost(self) -> TrainingCost:
        """What the run has cost, with all updates added so far."""
        seconds = self._cost.seconds + self._seconds()
        return TrainingCost(seconds, self._cost.flops + self._flops)

    def start(self) -> None:
        """Lets the time run from now on."""
        self._forget()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out the time spent inside."""
        self._paused_at = time.monotonic()
        try:
            yield
        finally:
            self._start_seconds += time.monotonic() - self._paused_at
            self._paused_at = None

    def timed(self, batches: Iterable[_Element]) -> Iterator[_Element]:
        """Yields batches, and notes how long each had to be waited for."""
        iterator = iter(batches)
        while True:
            start_seconds = time.monotonic()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self._waited += time.monotonic() - start_seconds
            yield batch

    def add(self, update: Update) -> None:
        """Adds an update. One that was not made counts as skipped, and costs."""
        self._flops += self._flops_of(update.size)
        if update.reduce_seconds:
            self._reduced.append(update.reduce_seconds)
        self._updates += 1
        self._source_tokens += update.size.source_tokens
        self._target_tokens += update.size.target_tokens
        self._positions += update.size.positions
        if update.finite:
            self._sums += [
                update.loss_sum,
                update.log_loss_sum,
                update.token_count,
            ]
            # In float16 a gradient may overflow until the loss scale has come down.
            if math.isfinite(update.gradient_norm):
                self._norms.append(update.gradient_norm)
        else:
            self._skipped += 1

    def values(self) -> dict[str, float]:
        """Returns means over the updates since the last call, and forgets them.

        A step's time is "input_seconds", the wait for a batch, "all_reduce_seconds",
        from a replica's gradients to the sum of all in the steps that were timed, and
        at most what is left, and "compute_seconds", the rest. A single accelerator
        works on while Python waits, so the first is the most that a faster input could
        save.
        """
        seconds, updates = self._seconds(), max(self._updates, 1)
        worked = max(seconds - self._waited, 0.0) / updates
        # A timed step that was slow may have waited longer than a mean step takes.
        reduced = min(float(np.mean(self._reduced)), worked) if self._reduced else 0.0
        made = self._updates - self._skipped
        loss_sum, log_loss_sum, token_count = self._sums.tolist()
        values = {
            "loss": loss_sum / max(token_count, 1.0),
            "perplexity": _exp(log_loss_sum / max(token_count, 1.0)),
            "gradient_norm": float(np.mean(self._norms)) if self._norms else math.nan,
            "target_tokens_per_second": self._target_tokens / seconds,
            "source_tokens_per_second": self._source_tokens / seconds,
            "padding_share": 1 - self._real_tokens() / max(self._positions, 1),
            "step_seconds": seconds / updates,
            "input_seconds": self._waited / updates,
            "all_reduce_seconds": reduced,
            "compute_seconds": worked - reduced,
            "flops_per_step": self._flops / updates,
            "flops_per_second": self._flops / seconds,
            "skipped": float(self._skipped),
        }
        if not made:
            values["loss"] = values["perplexity"] = math.nan
        if self._ceiling:
            values["ceiling_share"] = values["flops_per_second"] / self._ceiling
        self._cost = self.cost
        self._forget()
        return values

    def _real_tokens(self) -> int:
        return self._source_tokens + self._target_tokens

    def _seconds(self) -> float:
        now = time.monotonic() if self._paused_at is None else self._paused_at
        # Never 0, whatever the clock's grain.
        return max(now - self._start_seconds, 1e-9)

    def _forget(self) -> None:
        self._start_seconds = time.monotonic()
        self._paused_at: float | None = None
        self._waited = 0.0
        self._reduced: list[float] = []
        self._flops = 0.0
        self._updates = self._skipped = 0
        self._source_tokens = self._target_tokens = self._positions = 0
        # Loss, log loss and tokens.
        self._sums = np.zeros(3)
        self._norms: list[float] = []


def _exp(nats: float) -> float:
    """Returns e to a loss; infinite where it is too large for a float."""
    return math.exp(nats) if nats < 700 else math.inf
