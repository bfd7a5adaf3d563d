"""Writing of imported models as model directories."""

import dataclasses
import logging
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_folder, file_sha256
from t2t_keras.interop.imported_model import ImportedModel
from t2t_keras.interop.imported_weights import load_weights
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.run_card import initial_run_card
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.tokenizers import WordTokenizer
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.training.checkpoints import CheckpointState

logger = logging.getLogger(__name__)

_UNKNOWN_LANGUAGE = "und"  # "undetermined" in ISO 639-2


def write_model_dir(
    imported: ImportedModel,
    path: Path,
    source_format: str,
    *,
    languages: tuple[str | None, str | None] = (None, None),
) -> Transformer:
    """Writes a model directory, all of it or nothing, and returns its model.

    Args:
        imported: The model.
        path: The directory, which must not exist or be empty.
        source_format: Name of the source's format, for the run card.
        languages: Codes of source and target language. Default: those that the source
            names, or else "und" for undetermined.

    Raises:
        UserError: If the directory is not empty, or a weight is missing, damaged or of
            another shape than the settings say.
        OSError: If it cannot be written.
    """
    check_new(path)
    if imported.vocabulary.languages is not None:
        languages = imported.languages  # by the model's own codes
    source, target = (
        given or named or _UNKNOWN_LANGUAGE
        for given, named in zip(languages, imported.languages, strict=True)
    )
    config = imported.config((source, target))
    for warning in (*imported.warnings, *_warn_of_pieces(imported.vocabulary)):
        logger.warning(warning)
    model = load_model(imported, config)
    with atomic_folder(path) as folder:
        directory = ModelDir(folder)
        imported.vocabulary.save(directory.vocabulary_file)
        directory.update_run_card(_run_card(imported, source_format))
        fingerprints = {"vocabulary": imported.vocabulary.sha256}
        store = CheckpointStore(directory.checkpoints, model)
        store.save(CheckpointState(step=0, fingerprints=fingerprints))
        flagfile = shlex.quote(str(path / directory.flagfile.name))
        directory.write_config(
            config,
            f"Settings of a model that was imported from {source_format}. To train it "
            f"further:\npython -m t2t_keras.train --flagfile={flagfile} "
            f"--init_from={shlex.quote(str(path))} --model_dir=... --train_source=...",
        )
    return model


def check_new(path: Path) -> None:
    """Raises `UserError` unless a model directory can be made here."""
    ModelDir(path).check_writable()
    if path.is_dir() and any(path.iterdir()):
        raise UserError(
            f"--model_dir={path} is not empty. Give a folder that does not exist yet."
        )


def _warn_of_pieces(vocabulary: PieceVocabulary) -> list[str]:
    """Returns a warning if lines must be split into parts of words by the caller."""
    pieces = vocabulary.source.pieces(range(vocabulary.source.size))
    is_split = any("\u2581" in piece or piece.endswith("@@") for piece in pieces)
    if vocabulary.source.tokenizer_kind != WordTokenizer.kind or not is_split:
        return []
    return [
        "there is no source.spm and target.spm, so lines must be split into the pieces "
        "of the vocabulary, with spaces between, and so are translations"
    ]


def load_model(imported: ImportedModel, config: ExperimentConfig) -> Transformer:
    """Returns the model of `ImportedModel.config` with the weights of the source.

    Raises:
        UserError: As `write_model_dir`.
    """
    vocabulary = imported.vocabulary
    start = models.find_decoder_start(config.model, vocabulary)
    try:
        model = models.build_model(
            config, vocabulary.size, start, vocabulary.source.size
        )
    except ValueError as error:
        raise UserError(f"The source's settings make no model: {error}") from error
    load_weights(imported, model)
    return model


def _run_card(imported: ImportedModel, source_format: str) -> Mapping[str, Any]:
    entry: dict[str, Any] = {
        "format": source_format,
        "files": _digests(imported.files),
        "settings": _as_json(imported.settings),
        "original_ids": list(imported.original_ids),
    }
    if imported.source_original_ids is not None:
        entry["source_original_ids"] = list(imported.source_original_ids)
    return {
        **initial_run_card(),
        "import": entry,
        "vocabulary": {
            "size": imported.vocabulary.size,
            "sha256": imported.vocabulary.sha256,
        },
    }


def _digests(files: Sequence[Path]) -> dict[str, str]:
    """Returns the SHA-256 of each file, with its folder if two have one name."""
    names = [path.name for path in files]
    return {
        path.name
        if names.count(path.name) == 1
        else f"{path.parent.name}/{path.name}": file_sha256(path)
        for path in files
    }


def _as_json(value: Any) -> Any:
    """Returns settings with strings for what JSON does not have."""
    if isinstance(value, Mapping):
        return {str(name): _as_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def describe(imported: ImportedModel, model: Transformer) -> str:
    """Returns the size of an imported model as text."""
    sizes = dataclasses.asdict(imported.model)
    return (
        f"{sizes['encoder_layers']}+{sizes['decoder_layers']} layers, "
        f"{model.count_params():,} parameters, "
        f"{imported.vocabulary.size:,} pieces"
    )
