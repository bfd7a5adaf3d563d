"""What a model directory tells of its run, without building the model."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.ablation.parameters import parameter_count
from t2t_keras.config import ExperimentConfig
from t2t_keras.flat_config import flat
from t2t_keras.model_dir import ModelDir


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """A run.

    Attributes:
        name: The directory, as the user gave it.
        place: The directory.
        config: Its settings.
        card: Its run card.
        metrics: The lines of `metrics.jsonl`, in order.
    """

    name: str
    place: ModelDir
    config: ExperimentConfig
    card: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]

    @property
    def corpus(self) -> str:
        """The name of what it was trained on."""
        return self.card.get("corpus", {}).get("name", "unknown corpus")

    @property
    def vocabulary_size(self) -> int | None:
        """Subwords."""
        return self.card.get("vocabulary", {}).get("size")

    @property
    def parameters(self) -> int | None:
        """Numbers that the model has learned."""
        size = self.vocabulary_size
        return None if size is None else parameter_count(self.config.model, size)

    @property
    def cost(self) -> Mapping[str, Any]:
        """What training has cost; empty before the first checkpoint."""
        return self.card.get("training_cost", {})

    def scores(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Returns (test set and checkpoint, scores), as the card has them."""
        return list(self.card.get("scores", {}).items())

    def test_scores(self) -> Mapping[str, Any] | None:
        """Returns the translations' scores on the test split, by the latest mean."""
        found = [
            score
            for name, score in self.scores()
            if name.startswith("test averaged/") and "bleu" in score
        ]
        return max(found, key=lambda score: score["step"], default=None)


def read_run(path: str) -> RunFacts:
    """Returns what there is to know of a run.

    Raises:
        UserError: If there is no run, or its card is damaged.
    """
    place = ModelDir(path)
    config = place.config()
    return RunFacts(path, place, config, place.run_card(), _metrics(place))


def _metrics(place: ModelDir) -> list[dict[str, Any]]:
    """Returns the lines that are whole; a run may be writing one."""
    try:
        lines = place.metrics_file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            found.append(values)
    return found


def shown_settings(config: ExperimentConfig) -> dict[str, str]:
    """Returns every setting as text; of a file only its name, not where it lies."""
    return {name: _shown(value) for name, value in flat(config).items()}


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    text = str(value)
    if not os.path.isabs(text):
        return text
    # Several files may be one setting, with colons between them.
    return ":".join(os.path.basename(part.rstrip("/")) for part in text.split(":"))
