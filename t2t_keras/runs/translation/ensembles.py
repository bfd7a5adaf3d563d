"""Ensembles of runs: models that translate together, checked before TensorFlow starts.

The models of an ensemble average the probabilities of the next token, so they must have
the same ids. Their architectures may differ.
"""

import dataclasses
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import file_sha256
from t2t_keras.files.lines import check_input
from t2t_keras.files.paths import expand
from t2t_keras.settings.config import all_settings, flatten
from t2t_keras.settings.flags import config_from_flagfile, find_run

Paths = Sequence[str | os.PathLike[str]]

# Tokens that a shortlist leaves for a sentence.
_SHORTLIST_SIZE = 1000


def check(
    model_dir: str | os.PathLike[str],
    checkpoint: str | int | os.PathLike[str] = "averaged",
    ensemble_with: Paths = (),
    shortlist: str | os.PathLike[str] | None = None,
    shortlist_size: int | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> None:
    """Checks what `load` is given as far as possible without importing TensorFlow.

    The checkpoint is not looked for, and the model's languages are not read.

    Raises:
        UserError: As `check_members`; or if the shortlist's file or size is wrong.
    """
    del source_language, target_language
    check_members(model_dir, ensemble_with)
    check_shortlist(shortlist, shortlist_size)


def check_shortlist(path: str | os.PathLike[str] | None, size: int | None) -> None:
    """Raises `UserError` if settings of a shortlist are wrong, without TensorFlow."""
    if path is None and size is not None:
        raise UserError("--shortlist_size is for --shortlist. Add that.")
    if path is not None:
        check_input(os.fspath(path), "shortlist")


def check_members(model_dir: str | os.PathLike[str], ensemble_with: Paths) -> None:
    """Checks that runs and checkpoints can translate together, without TensorFlow.

    Raises:
        UserError: If one of them is no run, or its vocabulary or a setting that gives
            ids or text another meaning differs from that of the first run.
    """
    paths = str | os.PathLike
    if (
        isinstance(ensemble_with, paths)
        or not isinstance(ensemble_with, Iterable)
        or not all(isinstance(path, paths) for path in ensemble_with)
    ):
        raise UserError(
            "ensemble_with must be a list of model directories. Received: "
            f"{ensemble_with!r}"
        )
    if not ensemble_with:
        return
    first = Path(model_dir)
    for path in ensemble_with:
        _check_same_vocabulary(first, _find_member(path))
        _check_same_settings(first, _find_member(path))


def _find_member(path: str | os.PathLike[str]) -> Path:
    """Returns the model directory that an item of --ensemble_with names."""
    folder = find_run(path)
    if folder is None:
        raise UserError(
            "--ensemble_with must be the model directory of a run, or a checkpoint's "
            "folder in one, such as runs/second/averaged/step-1500. Received: "
            f"{path}, with no train.flags there or two folders above."
        )
    return folder


def _check_same_vocabulary(first: Path, other: Path) -> None:
    files = first / "vocabulary.model", other / "vocabulary.model"
    for file in files:
        if not file.is_file():
            raise UserError(
                f"{file} is missing, so {file.parent} has no model for an ensemble. "
                "Give the directory of a run that has been trained."
            )
    ours, theirs = (f"{file} (SHA-256 {file_sha256(file)[:12]}…)" for file in files)
    if file_sha256(files[0]) != file_sha256(files[1]):
        raise UserError(
            "The models of an ensemble must have the same vocabulary, because the "
            f"probabilities of their ids are averaged. Received: {ours} and {theirs}. "
            f"Train one of them with --vocabulary_file={files[0]}, or leave it out of "
            "--ensemble_with."
        )


def _check_same_settings(first: Path, other: Path) -> None:
    ours, theirs = (
        flatten(config_from_flagfile(folder / "train.flags"))
        for folder in (first, other)
    )
    for name, described in all_settings().items():
        if described.shared and ours[name] != theirs[name]:
            raise UserError(
                f"The models of an ensemble must have the same --{name}. Received: "
                f"{ours[name]} in {first}, and {theirs[name]} in {other}. Leave one "
                "of them out."
            )


def find_checkpoints(ensemble_with: Paths) -> list[Path]:
    """Returns the checkpoint that each item of --ensemble_with names, absolute.

    For a run that is its averaged checkpoint, or else the latest.

    Raises:
        UserError: If there is none, or it is damaged.
    """
    from t2t_keras.runs.model_dir import ModelDir

    checkpoints = []
    for path in ensemble_with:
        path = expand(path).resolve()
        run = ModelDir(_find_member(path))
        which = "averaged" if run.path == path else path
        checkpoints.append(run.find_checkpoint(which))
    return checkpoints


def load(
    model_dir: str | os.PathLike[str],
    checkpoint: str | int | os.PathLike[str],
    ensemble_with: Paths = (),
    shortlist: str | os.PathLike[str] | None = None,
    shortlist_size: int | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    task: Any = None,
):
    """Returns the `TrainedModel` of a run, with those that it translates with.

    Args:
        model_dir: Directory of the run.
        checkpoint: Its checkpoint; see `ModelDir.find_checkpoint`.
        ensemble_with: Other model directories, or folders of checkpoints.
        shortlist: File that restricts the tokens of a search; see `lexicon`.
        shortlist_size: Number of tokens that it leaves for a sentence.
        source_language: Language to translate from. Default: that of the run.
        target_language: The same of the language to translate to.
        task: Default: the task of the run's target language.

    Raises:
        UserError: As `check`, `load_trained`, `read_lexicon` and
            `TrainedModel.for_languages`; or if the size of the shortlist leaves only
            special ids.
    """
    from t2t_keras.runs.model_dir import ModelDir
    from t2t_keras.runs.models import load_trained

    check(model_dir, checkpoint, ensemble_with, shortlist, shortlist_size)
    first = load_trained(ModelDir(model_dir), checkpoint, task)
    others = [
        load_trained(ModelDir(_find_member(each)), each, first.task)
        for each in find_checkpoints(ensemble_with)
    ]
    trained = dataclasses.replace(first, others=tuple(others))
    trained = _with_shortlist(trained, shortlist, shortlist_size)
    return trained.for_languages(source_language, target_language)


def _with_shortlist(
    trained: Any, path: str | os.PathLike[str] | None, size: int | None = None
) -> Any:
    """Returns a `TrainedModel`, its searches restricted to shortlists if given."""
    if path is None:
        return trained
    if trained.vocabulary.languages is not None:
        raise UserError(
            "--shortlist is for models of one pair of languages, and this model is "
            "multilingual. Leave it out."
        )
    from t2t_keras.decoding.shortlist import NUM_SPECIAL_IDS, Shortlist
    from t2t_keras.translation.lexicon import read_lexicon

    size = _SHORTLIST_SIZE if size is None else size
    if not isinstance(size, int) or size <= NUM_SPECIAL_IDS:
        raise UserError(
            "--shortlist_size must be a whole number of more than "
            f"{NUM_SPECIAL_IDS}, the number of special ids. Received: {size!r}"
        )
    shortlist = Shortlist(*read_lexicon(path, trained.vocabulary), size)
    return dataclasses.replace(trained, shortlist=shortlist)


class LastLoaded:
    """The model that was loaded last, kept while its files stay the same."""

    def __init__(self):
        self._trained: Any = None
        self._files: list[tuple[Path, str]] = []
        self._lock = threading.Lock()

    def load(
        self,
        model_dir: Path,
        checkpoint: str | int | os.PathLike[str],
        ensemble_with: Paths = (),
        shortlist: str | os.PathLike[str] | None = None,
        shortlist_size: int | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        task: Any = None,
    ):
        """Returns what the function `load` does, loaded again only if a file differs.

        Threads may call it.

        Raises:
            UserError: As `load`.
        """
        from t2t_keras.runs.model_dir import ModelDir
        from t2t_keras.training.checkpoints import checkpoint_digest

        if shortlist is not None:
            shortlist = expand(shortlist)
        check(model_dir, checkpoint, ensemble_with, shortlist, shortlist_size)
        path = ModelDir(model_dir).find_checkpoint(checkpoint)
        paths = [path, *find_checkpoints(ensemble_with)]
        # An average of other checkpoints can replace one in the same folder.
        files = [(each, checkpoint_digest(each)) for each in paths]
        if shortlist is not None:
            files.append((shortlist, f"{shortlist_size} {file_sha256(shortlist)}"))
        with self._lock:
            if self._trained is None or self._files != files:
                self._trained = None  # frees its memory before another is loaded
                self._trained = load(
                    model_dir, path, paths[1:], shortlist, shortlist_size, task=task
                )
                self._files = files
            return self._trained.for_languages(source_language, target_language)
