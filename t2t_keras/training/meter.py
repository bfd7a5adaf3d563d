"""Meter of training: sums over updates, between two log lines and over the run."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from t2t_keras.training.update import StepSums
from t2t_keras.typing import BatchSize

_Element = TypeVar("_Element")


class Update(NamedTuple):
    """An update that was made.

    Attributes:
        step: Its number, from 1.
        size: Size of its batch.
        sums: Tensors until `read_updates` has read them, then numbers.
    """

    step: int
    size: BatchSize
    sums: StepSums


def read_updates(updates: Sequence[Update]) -> list[Update]:
    """Returns updates with their sums as numbers, waiting once for all of them.

    A number read after every step would make an accelerator wait for Python.
    """
    if not updates:
        return []
    columns = zip(*(tf.nest.flatten(update.sums) for update in updates), strict=True)
    rows = np.stack([tf.stack(column).numpy() for column in columns], axis=1)
    return [
        update._replace(sums=tf.nest.pack_sequence_as(update.sums, numbers))
        for update, numbers in zip(updates, rows.tolist(), strict=True)
    ]


class TrainingCost(NamedTuple):
    """What training has cost so far, up to some step.

    Attributes:
        seconds: Spent on updates; evaluations and checkpoints do not count.
        flops: Counted from shapes, padding included.
    """

    seconds: float = 0.0
    flops: float = 0.0


@dataclasses.dataclass
class MeterSums:
    """What updates add up to: plain numbers, which a checkpoint keeps as JSON.

    Attributes:
        seconds: That passed, and of them `waited` for batches.
        reduced: Seconds from a replica's gradients to the sum of all, of the steps
            that were timed.
        flops: Of all updates.
        updates: Made and skipped.
        skipped: Those whose loss or gradient was not finite.
        source_tokens: Of all updates; `target_tokens` and `positions` alike.
        loss_sum: Of updates that were made; `log_loss_sum` and `token_count` alike.
        norms: Of the gradients, where they are finite.
    """

    seconds: float = 0.0
    waited: float = 0.0
    reduced: list[float] = dataclasses.field(default_factory=list)
    flops: float = 0.0
    updates: int = 0
    skipped: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    positions: int = 0
    loss_sum: float = 0.0
    log_loss_sum: float = 0.0
    token_count: float = 0.0
    norms: list[float] = dataclasses.field(default_factory=list)


class Meter:
    """Adds up updates, and the time that passes.

    Args:
        flops_of: Returns the FLOPs of an update on a batch of a size.
        cost: What the run has cost before, `sums` included; None for nothing.
        ceiling: FLOP/s of matrix products alone, None where not measured.
        sums: What another meter had added up, to go on with; None for nothing.
    """

    def __init__(
        self,
        flops_of: Callable[[BatchSize], float],
        cost: TrainingCost | None = None,
        ceiling: float | None = None,
        sums: MeterSums | None = None,
    ):
        self._flops_of = flops_of
        self._ceiling = ceiling
        self._sums = sums or MeterSums()
        cost = cost or TrainingCost()
        # What came before the sums.
        self._cost = TrainingCost(
            max(cost.seconds - self._sums.seconds, 0.0),
            max(cost.flops - self._sums.flops, 0.0),
        )
        self.start()

    @property
    def cost(self) -> TrainingCost:
        """What the run has cost, with all updates added so far."""
        seconds = self._cost.seconds + self._seconds()
        return TrainingCost(seconds, self._cost.flops + self._sums.flops)

    @property
    def sums(self) -> MeterSums:
        """What has been added up since `values` was called last."""
        return dataclasses.replace(self._sums, seconds=self._seconds())

    def start(self) -> None:
        """Lets the time run from now on, beside what earlier updates took."""
        self._start_seconds = time.monotonic() - self._sums.seconds
        self._paused_at: float | None = None

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
            self._sums.waited += time.monotonic() - start_seconds
            yield batch

    def add(self, update: Update) -> None:
        """Adds an update, its sums read. A skipped one costs as much as others."""
        total, sums = self._sums, update.sums
        total.flops += float(self._flops_of(update.size))
        if sums.reduce_seconds:
            total.reduced.append(sums.reduce_seconds)
        total.updates += 1
        total.source_tokens += int(update.size.source_tokens)
        total.target_tokens += int(update.size.target_tokens)
        total.positions += int(update.size.positions)
        if sums.skipped:
            total.skipped += 1
            return
        total.loss_sum += sums.losses.loss_sum
        total.log_loss_sum += sums.losses.log_loss_sum
        total.token_count += sums.losses.token_count
        # In float16 a gradient may overflow until the loss scale has come down.
        if math.isfinite(sums.gradient_norm):
            total.norms.append(sums.gradient_norm)

    def values(self) -> dict[str, float]:
        """Returns means over the updates since the last call, and forgets them.

        A step's time is "input_seconds", the wait for a batch, "all_reduce_seconds",
        from a replica's gradients to the sum of all in the steps that were timed, and
        at most what is left, and "compute_seconds", the rest. A single accelerator
        works on while Python waits, so the first is the most that a faster input could
        save.
        """
        sums, seconds = self._sums, self._seconds()
        updates = max(sums.updates, 1)
        worked = max(seconds - sums.waited, 0.0) / updates
        # A timed step that was slow may have waited longer than a mean step takes.
        reduced = min(float(np.mean(sums.reduced)), worked) if sums.reduced else 0.0
        tokens = max(sums.token_count, 1.0)
        real_tokens = sums.source_tokens + sums.target_tokens
        values = {
            "loss": sums.loss_sum / tokens,
            "perplexity": _exp(sums.log_loss_sum / tokens),
            "gradient_norm": float(np.mean(sums.norms)) if sums.norms else math.nan,
            "target_tokens_per_second": sums.target_tokens / seconds,
            "source_tokens_per_second": sums.source_tokens / seconds,
            "padding_share": 1 - real_tokens / max(sums.positions, 1),
            "step_seconds": seconds / updates,
            "input_seconds": sums.waited / updates,
            "all_reduce_seconds": reduced,
            "compute_seconds": worked - reduced,
            "flops_per_step": sums.flops / updates,
            "flops_per_second": sums.flops / seconds,
            "skipped": float(sums.skipped),
        }
        if sums.updates == sums.skipped:
            values["loss"] = values["perplexity"] = math.nan
        if self._ceiling:
            values["ceiling_share"] = values["flops_per_second"] / self._ceiling
        self._cost = self.cost
        self._sums = MeterSums()
        self.start()
        return values

    def _seconds(self) -> float:
        now = time.monotonic() if self._paused_at is None else self._paused_at
        # Never 0, whatever the clock's grain.
        return max(now - self._start_seconds, 1e-9)


def _exp(nats: float) -> float:
    """Returns e to a loss; infinite where it is too large for a float."""
    return math.exp(nats) if nats < 700 else math.inf
