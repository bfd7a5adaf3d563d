"""Training metrics: sums over updates, between two log lines and over the run."""

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
    """An update and its sums.

    Attributes:
        step: Its number, from 1.
        sizes: Sizes of its batches.
        sums: Tensors before `read_updates`, numbers after.
    """

    step: int
    sizes: tuple[BatchSize, ...]
    sums: StepSums


def read_updates(updates: Sequence[Update]) -> list[Update]:
    """Returns updates with their sums as numbers; waits once for all of them.

    Reading a number after every step would make an accelerator wait for Python.
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
    """Cost of training up to some step.

    Attributes:
        seconds: Time spent on updates; evaluations and checkpoints do not count.
        flops: FLOPs counted from shapes, padding included.
    """

    seconds: float = 0.0
    flops: float = 0.0


@dataclasses.dataclass
class MeterSums:
    """Sums over updates: plain numbers, which a checkpoint keeps as JSON.

    Attributes:
        seconds: Time that passed, including `waited`, the wait for batches.
        reduced: Seconds of the all-reduce, from a replica's gradients to their sum, for
            each step that was timed.
        flops: FLOPs of all updates.
        updates: Number of updates, skipped ones included.
        skipped: Number of updates whose loss or gradient was not finite.
        source_tokens: Sum over all updates; `target_tokens` and `positions` likewise.
        loss_sum: Sum over applied updates; `log_loss_sum` and `token_count` likewise.
        norms: Norms of the gradients that are finite.
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
    """Accumulates the sums of updates, and the time that passes.

    Args:
        count_flops: Returns the FLOPs of an update on a batch of a size.
        cost: Cost of the run so far, `sums` included. Default: none.
        ceiling: FLOP/s of matrix products alone; None if not measured.
        sums: Sums of another meter to continue from. Default: none.
    """

    def __init__(
        self,
        count_flops: Callable[[BatchSize], float],
        cost: TrainingCost | None = None,
        ceiling: float | None = None,
        sums: MeterSums | None = None,
    ):
        self._count_flops = count_flops
        self._ceiling = ceiling
        self._sums = sums or MeterSums()
        cost = cost or TrainingCost()
        # Cost without the sums.
        self._cost = TrainingCost(
            max(cost.seconds - self._sums.seconds, 0.0),
            max(cost.flops - self._sums.flops, 0.0),
        )
        self.start()

    @property
    def cost(self) -> TrainingCost:
        """Cost of the run, with all updates added so far."""
        seconds = self._cost.seconds + self._seconds()
        return TrainingCost(seconds, self._cost.flops + self._sums.flops)

    @property
    def sums(self) -> MeterSums:
        """Sums since the last call of `values`."""
        return dataclasses.replace(self._sums, seconds=self._seconds())

    def start(self) -> None:
        """Starts the clock, at the seconds of earlier updates."""
        self._start_seconds = time.monotonic() - self._sums.seconds
        self._paused_at: float | None = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the clock inside the context."""
        self._paused_at = time.monotonic()
        try:
            yield
        finally:
            self._start_seconds += time.monotonic() - self._paused_at
            self._paused_at = None

    def timed(self, batches: Iterable[_Element]) -> Iterator[_Element]:
        """Yields batches, and adds up the time spent waiting for them."""
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
        """Adds an update from `read_updates`. A skipped one costs as much as others."""
        total, sums = self._sums, update.sums
        for size in update.sizes:
            total.flops += float(self._count_flops(size))
            total.source_tokens += int(size.source_tokens)
            total.target_tokens += int(size.target_tokens)
            total.positions += int(size.positions)
        if sums.reduce_seconds:
            total.reduced.append(sums.reduce_seconds)
        total.updates += 1
        if sums.skipped:
            total.skipped += 1
            return
        total.loss_sum += sums.losses.loss_sum
        total.log_loss_sum += sums.losses.log_loss_sum
        total.token_count += sums.losses.token_count
        # In float16 a gradient may overflow until the loss scale is small enough.
        if math.isfinite(sums.gradient_norm):
            total.norms.append(sums.gradient_norm)

    def values(self) -> dict[str, float]:
        """Returns means over the updates since the last call, and resets the sums.

        The time of a step is "input_seconds", the wait for a batch, plus
        "all_reduce_seconds", from a replica's gradients to their sum in the steps that
        were timed, plus "compute_seconds", the rest. A single accelerator continues to
        work while Python waits, so "input_seconds" is an upper bound of the time that
        a faster input could save.
        """
        sums, seconds = self._sums, self._seconds()
        updates = max(sums.updates, 1)
        step_work = max(seconds - sums.waited, 0.0) / updates
        # A timed step that was slow may have waited longer than a mean step takes.
        reduced = min(float(np.mean(sums.reduced)), step_work) if sums.reduced else 0.0
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
            "compute_seconds": step_work - reduced,
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
        # Never 0, even if the clock has not advanced.
        return max(now - self._start_seconds, 1e-9)


def _exp(nats: float) -> float:
    """Returns e to a loss; infinite where it is too large for a float."""
    return math.exp(nats) if nats < 700 else math.inf
