"""Summary of a run, read from its model directory without building the model."""

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.config import ExperimentConfig, flatten
from t2t_keras.settings.data_config import DataConfig

# Name in a run card of every corpus without a name of its own.
_UNNAMED = "text files"
_MOST_FILES = 4


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """Settings, scores and metrics of a run.

    Attributes:
        name: The directory, as on the command line.
        place: The model directory.
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
        """Name of the training corpus."""
        return corpus_name(self.card, self.config.data)

    @property
    def test_set(self) -> str:
        """The names of its test set's files, or of the corpus that it is a part of."""
        data = self.config.data
        return file_names([*data.test_source, *data.test_target]) or self.corpus

    @property
    def vocabulary_size(self) -> int | None:
        """Number of subwords."""
        return self.card.get("vocabulary", {}).get("size")

    @property
    def parameters(self) -> int | None:
        """Number of trainable parameters, unless a class of the user has others."""
        model, size = self.config.model, self.vocabulary_size
        if size is None or model.model is not None:
            return None
        return parameter_count(model, size)

    @property
    def cost(self) -> Mapping[str, Any]:
        """Training cost; empty before the first checkpoint."""
        return self.card.get("training_cost", {})

    @property
    def finished(self) -> bool:
        """Whether all its updates are made, or it was stopped early."""
        ends = self.config.training.train_steps, self.early_stop.get("step")
        return "step" in self.cost and self.cost["step"] in ends

    @property
    def early_stop(self) -> Mapping[str, Any]:
        """Step and reason of an early stop; empty if the run was not stopped early."""
        return self.card.get("early_stop", {})

    @property
    def is_parser(self) -> bool:
        """Whether it parses; otherwise it translates."""
        return self.config.data.target_language == "tree"

    def scores(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Returns (test set and checkpoint, scores), as the card has them."""
        return list(self.card.get("scores", {}).items())

    def test_scores(self, measure: str = "bleu") -> Mapping[str, Any] | None:
        """Returns the scores on the test split, by the average made last.

        If it has none, those of the average with the highest step. Those of the run's
        own search come before those of another.

        Args:
            measure: A measure that they must have; a parser has f1 in place of bleu.
        """
        search = self.config.decoding.as_dict()
        last = self.place.averaged_step()
        scores = [
            score
            for name, score in self.scores()
            if name.startswith("test averaged/") and measure in score
        ]
        return max(
            scores,
            key=lambda score: (
                score["step"] == last,
                score["step"],
                score.get("decoding") == search,
            ),
            default=None,
        )


def read_run(path: str) -> RunSummary:
    """Reads the summary of a run.

    Raises:
        UserError: If there is no run, or its card is damaged.
    """
    place = ModelDir(path)
    config = place.config()
    return RunSummary(path, place, config, place.run_card(), _metrics(place))


def _metrics(place: ModelDir) -> list[dict[str, Any]]:
    """Returns the lines that are whole; a run may be writing one."""
    try:
        lines = place.metrics_file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    metrics = []
    for line in lines:
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            metrics.append(values)
    return metrics


def corpus_name(card: Mapping[str, Any], data: DataConfig) -> str:
    """Returns the name of the training corpus, or the names of its files."""
    name = card.get("corpus", {}).get("name", "unknown corpus")
    files = file_names([*data.train_source, *data.train_target])
    return files if name == _UNNAMED and files else name


def file_names(paths: Sequence[str]) -> str:
    """Returns the names of files without their folders; of many, the first ones.

    >>> file_names(["/texts/train.en", "text/train.de"])
    'train.en, train.de'
    """
    names = list(dict.fromkeys(os.path.basename(path) for path in paths))
    more = len(names) - _MOST_FILES
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:_MOST_FILES]) + rest


# Rate of a part of a mixture: it has a slash, but is no path.
_RATE = re.compile(r"\d+/\d+")


def format_settings(config: ExperimentConfig) -> dict[str, str]:
    """Returns every setting as text, and paths without their folders."""
    return {name: _format_setting(value) for name, value in flatten(config).items()}


def _format_setting(value: Any) -> str:
    if value is None or value == ():
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(_format_setting, value))
    text = str(value)
    if not os.path.isabs(text):
        return text
    # Several files may be one setting, with colons between them.
    return ":".join(
        part if _RATE.fullmatch(part) else os.path.basename(part.rstrip("/"))
        for part in text.split(":")
    )
