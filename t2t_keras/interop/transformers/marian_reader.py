"""Reader of MarianMT models of Hugging Face transformers.

Source: transformers 5, models/marian/modeling_marian.py, tokenization_marian.py and
generation; measured against transformers (docs/convert.md).

Shapes: V vocabulary, D model width.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import Arrays
from t2t_keras.interop.imported_model import (
    NO_LOGIT,
    IdMap,
    ImportedModel,
    ReadWeight,
    new_piece,
)
from t2t_keras.interop.known_positions import sinusoids
from t2t_keras.interop.sentencepiece_pair import open_piece_vocabulary
from t2t_keras.interop.transformers.folder import (
    check_copies,
    check_sizes,
    find_tables,
    map_weights,
    model_options,
    open_weights,
    read_json,
    read_json_if_there,
)
from t2t_keras.interop.transformers.generation import (
    decoding_config,
    read_generation,
)
from t2t_keras.interop.transformers.names import BIAS
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.text.vocabulary import PAD_ID

# Settings that must have a value, and what a model with another one is.
_REQUIRED: Mapping[str, tuple[Any, str]] = MappingProxyType(
    {
        "scale_embedding": (True, "embeddings that are not scaled by sqrt(d_model)"),
        "static_position_embeddings": (True, "learned positions"),
        "normalize_before": (False, "normalization before each sub-layer"),
        "normalize_embedding": (False, "normalization of the embeddings"),
        "add_final_layer_norm": (False, "a last normalization"),
        "add_bias_logits": (False, "another bias of the logits"),
    }
)


def read_marian_mt(path: Path, config: Mapping[str, Any]) -> ImportedModel:
    """Returns a MarianMT model.

    Args:
        path: A folder with config.json, model.safetensors or pytorch_model.bin, whole
            or in parts, vocab.json, source.spm and target.spm, as `save_pretrained`
            writes it.
        config: Content of config.json.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or
            this project has no such architecture.
    """
    _check_architecture(path, config)
    arrays, weights_files = open_weights(path)
    generation = read_generation(path, config)
    maps, vocabulary_files = _read_vocabularies(path, config)
    source, target = maps
    tables = find_tables(arrays, config)
    start, source, target = _find_start(
        arrays, config, generation, tables[1], source, target
    )
    weights = map_weights(arrays, config, tables, target, source)
    weights["embedding/output_bias"] = target.rows(arrays.vector(BIAS))
    if len(target.pieces) > len(maps[1].pieces):  # by a piece for the start
        _forbid_last(weights)
    width = config["d_model"]
    positions = {"weight": lambda length: sinusoids(length, width, "halves")}
    check_copies(arrays, config, tables, positions)
    arrays.check_all_used()
    vocabulary, spm_files = open_piece_vocabulary(
        path, source, target, skips_unknown=True
    )
    decoding, warnings = decoding_config(generation, target)
    optional = [path / f"{name}_config.json" for name in ("generation", "tokenizer")]
    return ImportedModel(
        model=_model_config(config, weights, start),
        decoding=decoding,
        vocabulary=vocabulary,
        weights=weights,
        original_ids=target.original_ids,
        source_original_ids=None if source is target else source.original_ids,
        files=[
            *weights_files,
            path / "config.json",
            *vocabulary_files,
            *spm_files,
            *(file for file in optional if file.is_file()),
        ],
        settings={"config": config, "generation": generation},
        languages=_read_languages(path),
        warnings=warnings,
    )


def _check_architecture(path: Path, config: Mapping[str, Any]) -> None:
    for name, (expected, about) in _REQUIRED.items():
        # False is the default of MarianConfig for all others.
        value = config.get(name, name == "static_position_embeddings")
        if value != expected:
            raise UserError(
                f"{path} cannot be imported: it has {about}. Expected {name} "
                f"{expected}. Received: {value}"
            )
    check_sizes(path, config, "gelu")


def _find_start(
    arrays: Arrays,
    config: Mapping[str, Any],
    generation: Mapping[str, Any],
    table_name: str,
    source: IdMap,
    target: IdMap,
) -> tuple[str, IdMap, IdMap]:
    """Returns the setting `decoder_start`, and the ids with a piece for it.

    A decoder that starts from padding starts from the zero vector, unless it was
    trained further with transformers, which then gives padding a vector.
    """
    start = generation.get("decoder_start_token_id")
    start = config.get("decoder_start_token_id") if start is None else start
    if start not in target.original_ids:
        raise UserError(
            f"{arrays.path.parent} must have the decoder_start_token_id of a piece. "
            f"Received: {start}"
        )
    own_id = target.original_ids.index(start)
    if own_id != PAD_ID:
        return target.pieces[own_id], source, target
    table = arrays.read(table_name)
    if table.shape[:1] != (len(target.pieces),):
        raise UserError(
            f"{table_name} in {arrays.path} must have {len(target.pieces)} rows, one "
            f"for each piece. Received: the shape {table.shape}. It has another "
            "vocabulary."
        )
    if not np.any(table[start]):
        return "zero", source, target
    piece = new_piece("start", target.pieces)
    started = target.with_copy(piece, PAD_ID)
    return piece, started if source is target else source, started


def _read_vocabularies(
    path: Path, config: Mapping[str, Any]
) -> tuple[tuple[IdMap, IdMap], list[Path]]:
    """Returns the ids of source and target, one object if they are the same."""
    source_file, target_file = path / "vocab.json", path / "target_vocab.json"
    source = _read_vocabulary(source_file, config, config["vocab_size"])
    size = config.get("decoder_vocab_size") or config["vocab_size"]
    if not target_file.is_file():
        if size != config["vocab_size"]:
            raise UserError(f"{path} has no target_vocab.json, and needs one.")
        return (source, source), [source_file]
    target = _read_vocabulary(target_file, config, size)
    return (source, target), [source_file, target_file]


def _read_vocabulary(path: Path, config: Mapping[str, Any], size: int) -> IdMap:
    ids = read_json(path)
    if sorted(ids.values()) != list(range(size)):
        raise UserError(
            f"{path} must have the ids 0 to {size - 1} of the model's {size} rows, "
            f"each once. Received: {len(ids)} pieces. It belongs to another model."
        )
    pieces = sorted(ids, key=lambda piece: ids[piece])
    special = {"eos": config["eos_token_id"], "pad": config["pad_token_id"]}
    for name, piece in (("eos", "</s>"), ("pad", "<pad>"), ("unk", "<unk>")):
        if piece not in ids or special.get(name, ids[piece]) != ids[piece]:
            raise UserError(
                f"{path} must have {piece}, with the id of config.json. Received: "
                f"{ids.get(piece)}, and {special.get(name)} in config.json"
            )
    return IdMap.from_pieces(
        pieces, pad=ids["<pad>"], eos=ids["</s>"], unk=ids["<unk>"]
    )


def _read_languages(path: Path) -> tuple[str | None, str | None]:
    config = read_json_if_there(path / "tokenizer_config.json")
    names = (config.get("source_lang"), config.get("target_lang"))
    source, target = (
        name if isinstance(name, str) and name.isalpha() else None for name in names
    )
    return source, target


def _model_config(
    config: Mapping[str, Any], weights: Mapping[str, ReadWeight], start: str
) -> ModelConfig:
    return ModelConfig(
        **model_options(config, weights, activation="gelu", attention_dropout=0.0),
        position_layout="halves",
        decoder_start=start,
    )


def _forbid_last(weights: dict[str, ReadWeight]) -> None:
    """Changes the logits' bias so that the last piece is never likely."""
    read = weights["embedding/output_bias"]

    def read_bias() -> np.ndarray:
        bias_V = read()[:]
        bias_V[-1] = NO_LOGIT
        return bias_V

    weights["embedding/output_bias"] = read_bias
