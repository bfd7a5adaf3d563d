"""Checks that records were made with the settings and the text of a run."""

import dataclasses
import itertools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_nothing
from t2t_keras.input_pipeline.corpora.corpus import CorpusSplit
from t2t_keras.input_pipeline.corpora.fingerprints import is_old, shorten
from t2t_keras.input_pipeline.records.manifest import Manifest, RecordSpec
from t2t_keras.runs.data.from_settings import build_corpus, open_filters
from t2t_keras.runs.tasks import Task
from t2t_keras.settings.config import record_settings
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.setting import settings_of
from t2t_keras.text.stored_vocabulary import load_vocabulary

logger = logging.getLogger(__name__)


def _unordered(name: str, value: Any) -> Any:
    """Returns a setting's value, in one order if its order does not matter."""
    return sorted(value) if name == "filter" else value


def check_settings(
    made_with: Mapping[str, Any],
    vocabulary_sha256: str,
    config: DataConfig,
    folder: Path,
    *,
    advice: str,
) -> None:
    """Checks that records were made with these settings.

    A dataset or vocabulary file that is not set is not compared.

    Args:
        made_with: The manifest's settings.
        vocabulary_sha256: SHA-256 of the records' vocabulary.
        config: The current settings.
        folder: Directory of the records.
        advice: End of the error message: what to do.

    Raises:
        UserError: If settings differ; the message lists each difference.
    """
    current = record_settings(config)
    # Records of earlier releases have neither.
    made_with = {"filter": [], "user_symbols": [], **made_with}
    kinds = {"tokens"}
    if not config.vocabulary_file and made_with["vocabulary_file"] is None:
        kinds.add("vocabulary")
    names = [
        name
        for name, each in settings_of(DataConfig).items()
        # The text itself is compared by its fingerprint.
        if each.record in kinds or (name in ("filter", "dataset") and current[name])
    ]
    rows = [
        f"  --{name}: {_format_value(made_with[name])} in the records, "
        f"{_format_value(current[name])} now"
        for name in names
        if _unordered(name, made_with[name]) != _unordered(name, current[name])
    ]
    if config.vocabulary_file:
        languages = config.source_language, config.target_language
        vocabulary = load_vocabulary(config.vocabulary_file).with_languages(*languages)
        sha256 = vocabulary.sha256
        if sha256 != vocabulary_sha256:
            rows.append(
                f"  --vocabulary_file: SHA-256 {vocabulary_sha256[:12]}… in the "
                f"records, {sha256[:12]}… now"
            )
    if rows:
        raise UserError(
            f"{folder} holds records of other settings:\n" + "\n".join(rows) + advice
        )


def check_text_of_records(
    config: DataConfig,
    manifest: Manifest,
    folder: Path,
    task: Task,
) -> None:
    """Checks that records have the text of --train_source.

    Text that has the name as when they were made is not read.

    Raises:
        UserError: If the text is another one, or cannot be read.
    """
    sides = "train_source", "train_target"
    names = [list(getattr(config, side)) for side in sides]
    if not names[0] or names == [manifest.spec.settings[side] for side in sides]:
        return
    name = ",".join(itertools.chain(*names))
    logger.info(f"comparing {name} with the text of the records …")
    train = read_text_of_records(config, manifest.spec, task)
    if not train.has_fingerprint(manifest.fingerprint):
        advice = "leave out --train_source"
        raise other_text_error(name, train, manifest, folder, advice)


def read_text_of_records(
    config: DataConfig, spec: RecordSpec, task: Task
) -> CorpusSplit:
    """Returns the text of --train_source, filtered as that of records was.

    Raises:
        UserError: If it cannot be read.
    """
    made_with = tuple(spec.settings.get("filter", ()))
    config = dataclasses.replace(
        config, records=None, mixture=(), filter=made_with, rejected=None
    )
    corpus = build_corpus(config, ("train",), task)
    with log_nothing(), open_filters(config) as filters:
        return filters.apply(corpus).splits["train"]


@dataclasses.dataclass(frozen=True)
class RecordText:
    """Text of finished records, to compare it with that of a run.

    Attributes:
        config: Settings of the run.
        manifest: The records.
        task: Reads treebanks.
    """

    config: DataConfig
    manifest: Manifest
    task: Task

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the text."""
        return self.manifest.fingerprint

    def has_fingerprint(self, stored: str) -> bool:
        """Returns whether a stored fingerprint is that of the text.

        Fingerprints of this release and of one up to 0.9 cannot be compared with each
        other, but both with the text of --train_source.
        """
        own = self.manifest.fingerprint
        if stored == own or is_old(stored) == is_old(own):
            return stored == own
        if not self.config.train_source:
            return False
        text = read_text_of_records(self.config, self.manifest.spec, self.task)
        return text.has_fingerprint(stored) and text.has_fingerprint(own)


def other_text_error(
    name: str, train: CorpusSplit, manifest: Manifest, folder: Path, advice: str
) -> UserError:
    """Returns the error for text that records were not made of, with advice."""
    return UserError(
        f"{name} is not the training text that the records in {folder} were made of: "
        f"its SHA-256 is {shorten(train.fingerprint)} ({train.num_pairs:,} pairs), "
        f"expected {shorten(manifest.fingerprint)} ({manifest.text_pairs:,} pairs). "
        "Put the old text back (names and compression do not matter), or "
        f"{advice}."
    )


def without_corpus(config: DataConfig) -> DataConfig:
    """Returns the settings without training text."""
    return dataclasses.replace(
        config, dataset=None, train_source=(), train_target=(), train_alignments=()
    )


def _format_value(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)
