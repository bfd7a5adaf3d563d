"""Check that the settings of records agree with those of a run."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.settings.config import DataConfig
from t2t_keras.text.vocabulary import SubwordVocabulary

# All that decides which ids come out; where the text lies is told by its fingerprint.
_KEPT = (
    "dataset",
    "train_source",
    "train_target",
    "mixture",
    "source_language",
    "target_language",
    "vocabulary_file",
    "vocabulary_size",
    "subwords",
    "max_length",
)
_ALWAYS = ("source_language", "target_language", "max_length")
_OF_LEARNING = ("vocabulary_size", "subwords")


def kept_settings(config: DataConfig) -> dict[str, Any]:
    """Returns the settings that a manifest keeps, as JSON gives them back."""
    values = {name: getattr(config, name) for name in _KEPT}
    if config.train_source:
        values["dataset"] = None  # files of one's own take its place
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def check_settings(
    made_with: Mapping[str, Any],
    vocabulary_sha256: str,
    config: DataConfig,
    folder: Path,
    *,
    advice: str,
) -> None:
    """Refuses settings that would have made other records.

    A corpus or a vocabulary file that is not named is taken as the records have it.

    Args:
        made_with: The manifest's settings.
        vocabulary_sha256: Of the records' vocabulary.
        config: What was asked for.
        folder: Of the records.
        advice: What to do about it.

    Raises:
        UserError: If something differs; each difference is shown.
    """
    asked = kept_settings(config)
    names = [*_ALWAYS]
    if not config.vocabulary_file and made_with["vocabulary_file"] is None:
        names += _OF_LEARNING
    if asked["train_source"]:
        names += ("train_source", "train_target")
    elif asked["dataset"]:
        names.append("dataset")
    rows = [
        f"  --{name}: {_shown(made_with[name])} in the records, "
        f"{_shown(asked[name])} now"
        for name in names
        if made_with[name] != asked[name]
    ]
    if config.vocabulary_file:
        found = SubwordVocabulary.load(config.vocabulary_file).sha256
        if found != vocabulary_sha256:
            rows.append(
                f"  --vocabulary_file: SHA-256 {vocabulary_sha256[:12]}… in the "
                f"records, {found[:12]}… now"
            )
    if rows:
        raise UserError(
            f"{folder} holds records of other settings:\n" + "\n".join(rows) + advice
        )


def without_corpus(config: DataConfig) -> DataConfig:
    """Returns settings that name no training text."""
    return dataclasses.replace(config, dataset=None, train_source=(), train_target=())


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)
