"""Checks that the data of a run is the data that it was started with."""

import logging
import os
from collections.abc import Sequence
from typing import Protocol

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.corpus import Corpus
from t2t_keras.input_pipeline.corpora.fingerprints import shorten
from t2t_keras.runs.data.mixing import MixturePart
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.training_config import TrainingConfig
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


def check_dev_set(training: TrainingConfig, corpus: Corpus) -> None:
    """Raises `UserError` if a setting compares evaluations, and there are none."""
    if "dev" in corpus.splits:
        return
    for name in ("patience", "keep_best", "monitor"):
        value = getattr(training, name)
        if value != getattr(TrainingConfig, name):
            raise UserError(
                f"--{name}={value} needs a dev set, and the corpus {corpus.name} has "
                f"none. Give --dev_source and --dev_target, or leave out --{name}."
            )


def check_vocabulary_file(
    path: str | None, vocabulary: Vocabulary, model_dir: ModelDir
) -> None:
    """Raises `UserError` if --vocabulary_file is not the vocabulary of the run.

    The one that the run was started with may be gone, since the run has a copy.
    """
    data = model_dir.config().data
    is_known = path == data.vocabulary_file
    if not path or (is_known and not os.path.exists(path)):
        return
    languages = data.source_language, data.target_language
    sha256 = load_vocabulary(path).with_languages(*languages).sha256
    if sha256 != vocabulary.sha256:
        raise UserError(
            f"{path} (--vocabulary_file) is not the vocabulary of the run in "
            f"{model_dir.path}: its SHA-256 is {sha256[:12]}…, expected "
            f"{vocabulary.sha256[:12]}…. Give --vocabulary_file="
            f"{model_dir.vocabulary_file}, or start in a new --model_dir."
        )


class Fingerprinted(Protocol):
    """Text that can be compared with a stored fingerprint."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint that this release stores."""
        ...

    def has_fingerprint(self, stored: str) -> bool:
        """Returns whether a stored fingerprint, perhaps an old one, is that of it."""
        ...


def check_corpus(name: str, text: Fingerprinted, model_dir: ModelDir) -> None:
    """Raises `UserError` if the training text is not that of the run."""
    expected = model_dir.run_card().get("corpus", {}).get("fingerprint")
    if model_dir.exists() and expected and not text.has_fingerprint(expected):
        raise UserError(
            f"{name} is not the training text that the run in {model_dir.path} was "
            f"started with: its SHA-256 is {shorten(text.fingerprint)}, expected "
            f"{shorten(expected)}. Put the old text back (names and compression do not "
            "matter), or start in a new --model_dir."
        )


def check_mixture(parts: Sequence[MixturePart], model_dir: ModelDir) -> None:
    """Raises `UserError` if the text of a part has changed.

    Changed rates and tags are found by the check of the settings.
    """
    expected_parts = model_dir.run_card().get("corpus", {}).get("mixture", [])
    for part, expected in zip(parts, expected_parts, strict=False):
        old = expected["fingerprint"]
        if model_dir.exists() and not part.has_fingerprint(old):
            raise UserError(
                f"{part.item.name} (--mixture) is not the text that the run in "
                f"{model_dir.path} was started with, {expected['name']}: its SHA-256 "
                f"is {shorten(part.fingerprint)}, expected {shorten(old)}. Put the old "
                "text back, or start in a new --model_dir."
            )


def warn_of_dev_set(digest: str | None, model_dir: ModelDir) -> None:
    """Logs a warning if the dev set is not the one that the run was started with."""
    expected = model_dir.run_card().get("corpus", {}).get("dev_sha256")
    if model_dir.exists() and expected and digest != expected:
        logger.warning(
            "the dev set is not the one that the run was started with. Scores "
            "of before and now cannot be compared, and best/ is chosen by both."
        )
