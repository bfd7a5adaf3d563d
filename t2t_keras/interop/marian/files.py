"""Files of a Marian model: weights with settings, decoder.yml and vocabularies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import NpzArrays
from t2t_keras.interop.imported_model import parse_yaml, read_yaml

MODEL_SETTINGS = "special:model.yml"
"""Array with the settings that Marian embeds in its models."""


class ModelFiles(NamedTuple):
    """Files of a model: weights, two vocabularies, and settings of the search."""

    weights: Path
    vocabularies: tuple[Path, Path]
    decoder: Path | None
    search: Mapping[str, Any]


def find_weights(path: Path) -> Path:
    """Returns the path of the one model that a path names."""
    if path.suffix == ".bin":
        raise UserError(f"{path} is a model for one processor. Give a file .npz.")
    if path.is_file():
        return path
    decoder = _find_decoder(path)
    if decoder is None:
        names = sorted(path.glob("*.npz")) if path.is_dir() else []
        if len(names) == 1:
            return names[0]
        found = ", ".join(each.name for each in names) or "none"
        raise UserError(
            f"--input={path} must have one Marian model, a file .npz, or a decoder.yml "
            f"that names one. Found: {found}. Give the path of a file .npz."
        )
    models = read_yaml(decoder).get("models")
    models = models if isinstance(models, list) else [models]
    if len(models) != 1 or not isinstance(models[0], str):
        raise UserError(
            f"{decoder} must name one model. Received: {len(models)}. Give the path of "
            "a file .npz, convert each, and translate with --ensemble_with."
        )
    return _resolve(path, models[0])


def _find_decoder(folder: Path) -> Path | None:
    if (folder / "decoder.yml").is_file():
        return folder / "decoder.yml"
    found = sorted(folder.glob("*decoder.yml")) if folder.is_dir() else []
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UserError(
            f"--input={folder} has several models: {names}. Give the path of a file "
            ".npz."
        )
    return found[0] if found else None


def _resolve(folder: Path, name: str) -> Path:
    """Returns the path of a file that settings name, perhaps as it once was."""
    for path in (folder / name, folder / Path(name).name):
        if path.is_file():
            return path
    raise UserError(
        f"{folder} has no file {Path(name).name}, which its settings name. Download "
        "the whole model."
    )


def read_model_settings(arrays: NpzArrays) -> dict[str, Any]:
    """Returns the settings that Marian embeds in its models."""
    if MODEL_SETTINGS not in arrays.names:
        raise UserError(
            f"{arrays.path} has no array {MODEL_SETTINGS}, the settings that Marian "
            "embeds. It is not a model of Marian."
        )
    content = arrays.read(MODEL_SETTINGS).tobytes().rstrip(b"\0")
    try:
        settings = parse_yaml(content)
    except ValueError as error:
        raise UserError(
            f"{MODEL_SETTINGS} in {arrays.path} is damaged: {error}"
        ) from error
    if not isinstance(settings, dict):
        raise UserError(f"{MODEL_SETTINGS} in {arrays.path} has no settings.")
    return settings


def find_files(path: Path, weights: Path, settings: Mapping[str, Any]) -> ModelFiles:
    """Returns the files of a model, by decoder.yml or else its embedded settings."""
    folder = weights.parent
    decoder = _find_decoder(path) if path.is_dir() else None
    if decoder is None:
        beside = Path(f"{weights}.decoder.yml")
        decoder = beside if beside.is_file() else None
    search = {} if decoder is None else read_yaml(decoder)
    names = search.get("vocabs") or settings.get("vocabs") or []
    if len(names) != 2:
        raise UserError(
            f"{decoder or weights} must name two vocabularies, of source and target. "
            f"Received: {names}"
        )
    vocabularies = (_resolve(folder, str(names[0])), _resolve(folder, str(names[1])))
    return ModelFiles(weights, vocabularies, decoder, search)
