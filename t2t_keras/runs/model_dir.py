"""Model directory: everything needed to use or resume a training run.

MODEL_DIR/
  train.flags        every setting; `train --flagfile` runs it again
  vocabulary.model   the SentencePiece model
  run_card.json      versions, seed, data, digests, scores
  checkpoints/       step-N, the newest checkpoints
  best/              step-N, the checkpoints with the best dev loss or score
  averaged/          step-N, averaged checkpoints
  translations/      translations of test sets
  export/            SavedModels for text, a folder for each version
  export_xla/        the same, for servers that are started with XLA
  export_ids/        SavedModels for token ids, which need no TensorFlow Text
  export_ctranslate2/  CTranslate2 models, a folder for each version
  export_argos/      the same of packages of Argos Translate
  export_transformers/  the same of MarianMT models of transformers
  export_marian/     the same of models of Marian
  export_keras/      the same of files of Keras
  tensorboard/       curves, sample translations, attention maps, profiles
  metrics.jsonl      metrics, a line of JSON for each progress line
  nonfinite/         step-N, batches whose loss or gradient was not finite
  stacks.txt         stack of every thread when training stalled; those of other
                     workers are in stacks-worker-1.txt and so on
  .lock              names the process that trains, while it does
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import write_text
from t2t_keras.files.locks import reserve_folder
from t2t_keras.files.paths import (
    check_on_file_system,
    check_readable_by_tensorflow,
    expand,
)
from t2t_keras.settings.config import ExperimentConfig, differences, make_paths_absolute
from t2t_keras.settings.flags import config_from_flagfile, flagfile_text
from t2t_keras.settings.training_text import parse_mixture_item
from t2t_keras.training.checkpoints import read_state, steps_in
from t2t_keras.training.stopping import monitored_loss

# "averaged", "latest", "best", a step number, or a checkpoint's folder.
Checkpoint = str | int | os.PathLike[str]

_REFUSAL = (
    "Another process is training in {folder}: {owner}. Two would overwrite each "
    "other's checkpoints. Wait for it, stop it, or give another --model_dir."
)


def package_versions(names: Sequence[str]) -> dict[str, str | None]:
    """Returns the versions of packages; None for a package that is not installed."""
    versions: dict[str, str | None] = dict.fromkeys(names)
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


class BestCheckpoint(NamedTuple):
    """Checkpoint in best/ and its monitored score, lower is better."""

    loss: float
    step: int


class ModelDir:
    """Paths and files of a model directory, which need not exist."""

    def __init__(self, path: str | os.PathLike[str]):
        check_on_file_system(path, "The model directory")
        self.path = expand(path)
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
        self.export_argos = self.path / "export_argos"
        self.export_transformers = self.path / "export_transformers"
        self.export_marian = self.path / "export_marian"
        self.export_keras = self.path / "export_keras"
        self.tensorboard = self.path / "tensorboard"
        self.metrics_file = self.path / "metrics.jsonl"
        self.nonfinite = self.path / "nonfinite"
        self.stacks_file = self.path / "stacks.txt"

    def stacks_file_for(self, worker: int) -> Path:
        """Returns the file for thread stacks of a worker; the chief is worker 0."""
        if worker == 0:
            return self.stacks_file
        return self.path / f"stacks-worker-{worker}.txt"

    def exists(self) -> bool:
        """Returns whether the directory has a run."""
        return self.flagfile.is_file()

    def check_writable(self) -> None:
        """Checks that files can be written here, before any work that would be lost.

        The directory need not exist, and is not created.

        Raises:
            UserError: If the path is a file or inside one, or is not writable, or
                TensorFlow could not read what it writes here.
        """
        check_readable_by_tensorflow(self.path, "--model_dir")
        existing = self.path
        while not os.path.lexists(existing) and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir():
            raise UserError(
                f"--model_dir={self.path} cannot be a folder: {existing} is a file. "
                "Give another --model_dir, or move the file away."
            )
        try:
            with tempfile.TemporaryFile(dir=existing):
                pass
        except OSError as error:
            raise UserError(
                f"--model_dir={self.path} is not writable: no file can be created in "
                f"{existing} ({error.strerror}). Give a folder that you may write to, "
                "or change its permissions."
            ) from error

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Locks the directory for this process during a `with` block.


        Raises:
            UserError: On entering the block, if another process is training here.
        """
        return reserve_folder(self.path, self.lock_file.name, refusal=_REFUSAL)

    def config(self) -> ExperimentConfig:
        """Returns the settings of the run.

        Raises:
            UserError: If the directory has no run.
        """
        if not self.exists():
            fault = "is a file" if self.path.is_file() else "has no train.flags"
            raise UserError(
                f"{self.path} is not a model directory: it {fault}. "
                "Give the --model_dir of a training run."
            )
        return config_from_flagfile(self.flagfile)

    def check_same(self, config: ExperimentConfig, *, by_content: bool = False) -> None:
        """Raises `UserError` if the run here has other settings.

        Relative paths are compared as seen from the working directory: `Run.train` of
        release 0.3.0 stored them.

        Args:
            config: The current settings.
            by_content: Whether the caller compares text, vocabulary and source of the
                weights with the digests of the run card. Their names may then change.
        """
        changed = differences(*map(make_paths_absolute, (self.config(), config)))
        if by_content:
            for name in _names_of_contents(changed, config, self.run_card()):
                changed.pop(name, None)
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
        """Writes the flagfile, which makes the directory one of a run."""
        write_text(self.flagfile, flagfile_text(config, comment))

    @property
    def vocabulary_sha256(self) -> str | None:
        """Digest of the run's vocabulary; None before the run has started.

        `load_vocabulary` checks the vocabulary's file with it.
        """
        return self.run_card().get("vocabulary", {}).get("sha256")

    def run_card(self) -> dict[str, Any]:
        """Returns the run card; empty before the run has started."""
        try:
            return json.loads(self.run_card_file.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise UserError(f"{self.run_card_file} is damaged: {error}") from error

    def update_run_card(self, entries: Mapping[str, Any]) -> None:
        """Adds entries to the run card, replacing those of the same name."""
        card = {**self.run_card(), **entries}
        write_text(self.run_card_file, json.dumps(card, indent=2) + "\n")

    def rank_best(self, monitor: str) -> list[BestCheckpoint]:
        """Returns the checkpoints in best/, the best "dev_loss" or "dev_bleu" first."""
        ranked = []
        for step in steps_in(self.best):
            try:
                scores = read_state(self.best / f"step-{step}").scores
            except UserError:  # damaged, so that another one takes its place
                scores = {}
            ranked.append(BestCheckpoint(monitored_loss(scores, monitor), step))
        return sorted(ranked)

    def averaged_step(self) -> int | None:
        """Returns the step of the average that was made last; None before any."""
        steps = self.run_card().get("averaged", {}).get("steps", [])
        return steps[-1] if steps else None

    def find_checkpoint(self, which: Checkpoint) -> Path:
        """Returns a checkpoint's directory.

        Args:
            which: "averaged" (the average made last, or else the newest checkpoint),
                "latest", "best", a step number, or a directory.

        Raises:
            UserError: If there is no such checkpoint.
        """
        folders = {
            "averaged": [self.averaged, self.checkpoints],
            "latest": [self.checkpoints],
            "best": [self.best],
        }
        if isinstance(which, os.PathLike):
            read_state(expand(which))
            return expand(which)
        which = str(which)
        for folder in folders.get(which, []):
            steps = steps_in(folder)
            if folder == self.best and len(steps) > 1:
                steps = [self.rank_best(self.config().training.monitor)[0].step]
            if folder == self.averaged and (last := self.averaged_step()) in steps:
                steps = [last]
            if steps:
                return folder / f"step-{steps[-1]}"
        if which.isdigit() and int(which) in steps_in(self.checkpoints):
            return self.checkpoints / f"step-{which}"
        if which not in folders and not which.isdigit() and expand(which).is_dir():
            read_state(expand(which))
            return expand(which)
        raise UserError(
            f"There is no checkpoint {which!r} in {self.path}. There are steps "
            f"{steps_in(self.checkpoints) or 'none'}; --checkpoint may be averaged, "
            "latest, best, a step, or a checkpoint's folder."
        )


def _names_of_contents(
    changed: Mapping[str, tuple[Any, Any]],
    config: ExperimentConfig,
    card: Mapping[str, Any],
) -> Iterator[str]:
    """Yields the settings that name something of which the run card has a digest."""
    corpus = card.get("corpus", {})
    if corpus.get("fingerprint"):
        yield from ("train_source", "train_target", "train_alignments")
        yield from ("source_column", "target_column")
        if None in changed.get("dataset", ()):  # text or records instead
            yield "dataset"
    mixtures = changed.get("mixture", ((), ()))
    old, new = ([parse_mixture_item(item)[1:] for item in each] for each in mixtures)
    if old == new and len(corpus.get("mixture", ())) == len(old):
        yield "mixture"
    if config.data.records or config.data.vocabulary_file:
        yield "vocabulary_file"
    if card.get("init") and config.training.init_from:
        yield "init_from"
