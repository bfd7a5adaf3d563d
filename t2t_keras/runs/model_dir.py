"""A model directory: everything needed to use, or go on with, a training run.

MODEL_DIR/
  train.flags        every setting; `train --flagfile` runs it again
  vocabulary.model   the SentencePiece model
  run_card.json      versions, seed, data, digests, scores
  checkpoints/       step-N, the newest ones
  best/              step-N, the best on the dev set
  averaged/          step-N, means of checkpoints
  translations/      what test sets became
  export/            SavedModels of text, a folder a version
  export_xla/        the same for servers that are started with XLA
  export_ids/        SavedModels of ids, which need no TensorFlow Text
  export_ctranslate2/  models of CTranslate2, a folder a version
  tensorboard/       curves, sample translations, attention maps, profiles
  metrics.jsonl      the numbers of the curves, a line of JSON a line of progress
  nonfinite/         step-N, batches whose loss or gradient was not finite
  stacks.txt         what every thread was doing when nothing got done; of further
                     workers in stacks-worker-1.txt and so on
  .lock              there while a process trains: who
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_text
from t2t_keras.files.locks import reserve_folder
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.flags import config_from_flagfile, differences, flagfile_text
from t2t_keras.text.vocabulary import SubwordVocabulary
from t2t_keras.training.checkpoints import read_state, steps_in

_REFUSAL = (
    "Another process trains in {folder}: {owner}. Two would overwrite each other's "
    "checkpoints. Wait for it or stop it, or give another --model_dir."
)


def package_versions(names: Sequence[str]) -> dict[str, str | None]:
    """Returns the versions of packages for a record; None of one that is missing."""
    found: dict[str, str | None] = dict.fromkeys(names)
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


class ModelDir:
    """Paths and files of a model directory.

    Args:
        path: The directory; it need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.flagfile = self.path / "train.flags"
        self.lock_file = self.path / ".lock"
        self.vocabulary_file = self.path / "vocabulary.model"
        self.run_card_file = self.path / "run_card.json"
        self.checkpoints = self.path / "checkpoints"
        self.best = self.path / "best"
        self.averaged = self.path / "averaged"
        self.translations = self.path / "translations"
        self.export = self.path / "export"
        self.export_xla = self.path / "export_xla"
        self.export_ids = self.path / "export_ids"
        self.export_ctranslate2 = self.path / "export_ctranslate2"
        self.tensorboard = self.path / "tensorboard"
        self.metrics_file = self.path / "metrics.jsonl"
        self.nonfinite = self.path / "nonfinite"
        self.stacks_file = self.path / "stacks.txt"

    def stacks_file_of(self, worker: int) -> Path:
        """Returns where the stacks of a worker go, counted from 0."""
        if worker == 0:
            return self.stacks_file
        return self.path / f"stacks-worker-{worker}.txt"

    def exists(self) -> bool:
        """Returns whether a run has been started here."""
        return self.flagfile.is_file()

    def check_writable(self) -> None:
        """Checks that files can be made here, before work is done that would be lost.

        The directory need not exist, and is not made.

        Raises:
            UserError: If it is a file or within one, or may not be written to.
        """
        place = self.path
        while not os.path.lexists(place) and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise UserError(
                f"--model_dir={self.path} cannot be a folder: {place} is a file. Give "
                "another --model_dir, or move the file away."
            )
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            raise UserError(
                f"--model_dir={self.path} cannot be written to: no file can be made in "
                f"{place} ({error.strerror}). Give a folder that you may write to, or "
                "change its permissions."
            ) from error

    def lock(
        self, log: Callable[[str], object]
    ) -> contextlib.AbstractContextManager[None]:
        """Keeps the directory to this process for the length of a `with` block.

        Args:
            log: Called with a warning if the file system has no locks.

        Raises:
            UserError: In the `with` statement, if another process trains here.
        """
        return reserve_folder(self.path, self.lock_file.name, refusal=_REFUSAL, log=log)

    def config(self) -> ExperimentConfig:
        """Returns the settings of the run.

        Raises:
            UserError: If there is no run here.
        """
        if not self.exists():
            fault = "is a file" if self.path.is_file() else "has no train.flags"
            raise UserError(
                f"{self.path} is not a model directory: it {fault}. "
                "Give the --model_dir of a training run."
            )
        return config_from_flagfile(self.flagfile)

    def check_same(self, config: ExperimentConfig) -> None:
        """Raises `UserError` if the run here was made with other settings."""
        changed = differences(self.config(), config)
        if changed:
            rows = [
                f"  --{name}: {old} in the model_dir, {new} now"
                for name, (old, new) in changed.items()
            ]
            raise UserError(
                f"{self.path} holds a run with other settings:\n"
                + "\n".join(rows)
                + "\nGive another --model_dir, or the settings of the run "
                f"(--flagfile={self.flagfile})."
            )

    def write_config(self, config: ExperimentConfig, comment: str) -> None:
        """Writes the flagfile; from then on there is a run here."""
        write_text(self.flagfile, flagfile_text(config, comment))

    def vocabulary(self) -> SubwordVocabulary:
        """Returns the vocabulary, checked against the digest of the run card.

        Raises:
            UserError: If it is missing, damaged, or not the run's.
        """
        vocabulary = SubwordVocabulary.load(self.vocabulary_file)
        known = self.run_card().get("vocabulary", {}).get("sha256")
        if known and known != vocabulary.sha256:
            raise UserError(
                f"{self.vocabulary_file} is not the vocabulary that this model was "
                f"trained with: its SHA-256 is {vocabulary.sha256[:12]}…, expected "
                f"{known[:12]}…. Put the original file back."
            )
        return vocabulary

    def run_card(self) -> dict[str, Any]:
        """Returns what is known of the run; empty before it has started."""
        try:
            return json.loads(self.run_card_file.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise UserError(f"{self.run_card_file} is damaged: {error}") from error

    def update_run_card(self, facts: Mapping[str, Any]) -> None:
        """Adds facts to the run card, in place of those of the same name."""
        card = {**self.run_card(), **facts}
        write_text(self.run_card_file, json.dumps(card, indent=2) + "\n")

    def find_checkpoint(self, which: str) -> Path:
        """Returns a checkpoint's directory.

        Args:
            which: "averaged" (the newest mean, or else the newest checkpoint),
                "latest", "best", a step number, or a directory.

        Raises:
            UserError: If there is no such checkpoint.
        """
        places = {
            "averaged": [self.averaged, self.checkpoints],
            "latest": [self.checkpoints],
            "best": [self.best],
        }
        for place in places.get(which, []):
            steps = steps_in(place)
            if steps:
                return place / f"step-{steps[-1]}"
        if which.isdigit() and int(which) in steps_in(self.checkpoints):
            return self.checkpoints / f"step-{which}"
        if which not in places and not which.isdigit() and Path(which).is_dir():
            read_state(which)
            return Path(which)
        raise UserError(
            f"There is no checkpoint {which!r} in {self.path}. There are steps "
            f"{steps_in(self.checkpoints) or 'none'}; --checkpoint may be averaged, "
            "latest, best, a step, or a checkpoint's folder."
        )
