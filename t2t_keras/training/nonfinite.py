"""Non-finite updates, whose loss or gradient is NaN or infinite: stop, or skip them."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_folder, explain
from t2t_keras.training.meter import Update
from t2t_keras.typing import Batch

# After so many in a row, later updates are not expected to be finite either.
MAX_CONSECUTIVE_SKIPS = 100


class NonFiniteGuard:
    """Stops training at a skipped update, or tolerates some of them.

    Args:
        folder: Folder for the batches of such an update and its statistics, in
            `step-N`; None if another process writes them.
        skip: Whether to continue until there are `MAX_CONSECUTIVE_SKIPS` in a row.
        load_batches: Returns the batches of an update, all their rows, by its step.
        load_metadata: Returns further statistics of an update, by its step.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        skip: bool,
        load_batches: Callable[[int], Sequence[Batch]],
        load_metadata: Callable[[int], Mapping[str, Any]],
    ):
        self._folder = folder
        self._most_in_a_row = MAX_CONSECUTIVE_SKIPS if skip else 1
        self._load_batches = load_batches
        self._load_metadata = load_metadata
        self._first: Update | None = None
        self._in_a_row = 0

    def check(self, update: Update) -> None:
        """Checks an update; called for each, in order.

        Raises:
            UserError: If it was skipped, and training should stop. Its batches, or
                those of the first of several in a row, are written before.
        """
        if not update.sums.skipped:
            self._first, self._in_a_row = None, 0
            return
        self._first = self._first or update
        self._in_a_row += 1
        if self._in_a_row >= self._most_in_a_row:
            raise UserError(self._message(self._first, self._save(self._first)))

    def _message(self, first: Update, where: str) -> str:
        numbers = (
            f"loss sum {first.sums.losses.loss_sum}, "
            f"gradient norm {first.sums.gradient_norm}"
        )
        remedy = (
            "train in a new --model_dir with a lower learning rate "
            "(--learning_rate_scale with --schedule=paper, else --learning_rate), a "
            "longer --warmup_steps, or --clip_norm."
        )
        if self._in_a_row > 1:
            return (
                f"From step {first.step:,} on, {self._in_a_row} updates in a row had a "
                f"loss or gradient that is not finite ({numbers} in the first). "
                f"{where} Skipping them does not help: {remedy}"
            )
        return (
            f"At step {first.step:,} the loss or its gradient was not finite "
            f"({numbers}), and the update was not made. {where} The checkpoints are "
            "from before it. The same command with --on_nonfinite=skip continues "
            f"without such updates; if there are many, {remedy}"
        )

    def _save(self, update: Update) -> str:
        """Writes the batches and statistics; returns a sentence with the place."""
        if self._folder is None:
            return "The first worker keeps its batch."
        folder = self._folder / f"step-{update.step}"
        try:
            batches = self._load_batches(update.step)
            shapes = [
                {name: np.shape(part) for name, part in batch.items()}
                for batch in batches
            ]
            statistics = {
                "step": update.step,
                **update.sums.losses._asdict(),
                "gradient_norm": update.sums.gradient_norm,
                "shapes": shapes[0] if len(shapes) == 1 else shapes,
                **self._load_metadata(update.step),
            }
            text = json.dumps(_to_json_value(statistics), indent=2, allow_nan=False)
            with atomic_folder(folder) as temporary:
                for number, batch in enumerate(batches, start=1):
                    suffix = "" if number == 1 else f"-{number}"
                    np.savez(temporary / f"batch{suffix}.npz", **batch)
                (temporary / "statistics.json").write_text(f"{text}\n")
        except OSError as error:
            return f"Its batch could not be kept: {explain(error)}"
        return f"Its batch and statistics are in {folder}."


def _to_json_value(value: Any) -> Any:
    """Returns a value that JSON can hold: NaN and infinity become strings."""
    if isinstance(value, Mapping):
        return {name: _to_json_value(part) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def weight_norm(weights: Sequence[keras.Variable]) -> float:
    """Returns the Euclidean norm of all weights together."""
    return float(tf.linalg.global_norm([weight.value for weight in weights]))


def norms_by_name(weights: Sequence[keras.Variable]) -> dict[str, float]:
    """Returns the Euclidean norm of each weight, by its path.

    In float64: weights of a diverged run may be so large that their squares overflow
    float32.
    """
    return {
        weight.path: float(np.linalg.norm(np.asarray(weight.value, "float64")))
        for weight in weights
    }
