"""Handling of losses and gradients that are not finite, and norms of the weights."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.meter import Update
from t2t_keras.typing import Batch

# So many in a row are no accident any more: no update would ever come through.
MOST_IN_A_ROW = 100


class NonFiniteGuard:
    """Stops at an update that was not made, or lets a few of them pass.

    Args:
        folder: Where the batch and what is known of it are kept, in `step-N`; None to
            leave that to another process.
        skip: Whether to let them pass until there are `MOST_IN_A_ROW` in a row.
        batch_of: Returns the batch of an update, all rows of it, by its step.
        facts: Returns what else to keep of an update, by its step.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        skip: bool,
        batch_of: Callable[[int], Batch],
        facts: Callable[[int], Mapping[str, Any]],
    ):
        self._folder = folder
        self._most_in_a_row = MOST_IN_A_ROW if skip else 1
        self._batch_of = batch_of
        self._facts = facts
        self._first: Update | None = None
        self._in_a_row = 0

    def check(self, update: Update) -> None:
        """Looks at an update; called for each, in order.

        Raises:
            UserError: If it was not made, and none further should be tried. Its
                batch, or the first of the row, is kept by then.
        """
        if not update.sums.skipped:
            self._first, self._in_a_row = None, 0
            return
        self._first = self._first or update
        self._in_a_row += 1
        if self._in_a_row >= self._most_in_a_row:
            raise UserError(self._message(self._first, self._keep(self._first)))

    def _message(self, first: Update, kept: str) -> str:
        numbers = (
            f"loss sum {first.sums.losses.loss_sum}, "
            f"gradient norm {first.sums.gradient_norm}"
        )
        remedy = (
            "train in a new --model_dir with a lower --learning_rate_scale or a "
            "longer --warmup_steps."
        )
        if self._in_a_row > 1:
            return (
                f"From step {first.step:,} on, {self._in_a_row} updates in a row had a "
                f"loss or gradient that is not finite ({numbers} in the first). {kept} "
                f"To skip them does not help: {remedy}"
            )
        return (
            f"At step {first.step:,} the loss or its gradient was not finite "
            f"({numbers}), and the update was not made. {kept} The checkpoints are "
            "from before it. The same command with --on_nonfinite=skip goes on "
            f"without such updates; if they are many, {remedy}"
        )

    def _keep(self, update: Update) -> str:
        """Writes the batch and its statistics; returns a sentence that says where."""
        if self._folder is None:
            return "The first worker keeps its batch."
        folder = self._folder / f"step-{update.step}"
        try:
            batch = self._batch_of(update.step)
            statistics = {
                "step": update.step,
                **update.sums.losses._asdict(),
                "gradient_norm": update.sums.gradient_norm,
                "shapes": {name: np.shape(part) for name, part in batch.items()},
                **self._facts(update.step),
            }
            folder.mkdir(parents=True, exist_ok=True)
            with open(folder / "batch.npz", "wb") as file:
                np.savez(file, **batch)
            text = json.dumps(_writable(statistics), indent=2, allow_nan=False)
            (folder / "statistics.json").write_text(f"{text}\n")
        except OSError as error:
            return f"Its batch could not be kept: {error}."
        return f"Its batch and statistics are in {folder}."


def _writable(value: Any) -> Any:
    """Returns what JSON can hold: numbers that are none become words."""
    if isinstance(value, Mapping):
        return {name: _writable(part) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def weight_norm(weights: Sequence[keras.Variable]) -> float:
    """Returns the Euclidean norm of all weights together."""
    return float(tf.linalg.global_norm([weight.value for weight in weights]))


def norms_by_name(weights: Sequence[keras.Variable]) -> dict[str, float]:
    """Returns the Euclidean norm of each weight, by its path.

    In float64: where these are wanted, weights may be so large that their squares
    are no float32 any more.
    """
    return {
        weight.path: float(np.linalg.norm(np.asarray(weight.value, "float64")))
        for weight in weights
    }
