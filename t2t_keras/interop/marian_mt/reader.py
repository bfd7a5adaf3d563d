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
from t2t_keras.interop.arrays import Arrays, SafetensorsArrays, ShardedArrays
from t2t_keras.interop.imported_model import (
    NO_LOGIT,
    IdMap,
    ImportedModel,
    ReadArray,
    ReadWeight,
    embedding_options,
    new_piece,
    read_settings,
    transposed,
)
from t2t_keras.interop.known_positions import rounding, sinusoids
from t2t_keras.interop.marian_mt.generation import (
    FOLDER,
    decoding_config,
    read_generation,
)
from t2t_keras.interop.marian_mt.names import (
    ACTIVATIONS,
    BIAS,
    DECODER_EMBEDDING,
    ENCODER_EMBEDDING,
    EPSILON,
    OUTPUT,
    SHARED,
    layer_names,
)
from t2t_keras.interop.sentencepiece_pair import open_piece_vocabulary
from t2t_keras.interop.torch_file import TorchArrays
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.text.vocabulary import PAD_ID

# Settings that must have a value, and what a model with another one is.
_REQUIRED: Mapping[str, tuple[Any, str]] = MappingProxyType(
    {
        "model_type": ("marian", "another architecture"),
        "scale_embedding": (True, "embeddings that are not scaled by sqrt(d_model)"),
        "static_position_embeddings": (True, "learned positions"),
        "normalize_before": (False, "normalization before each sub-layer"),
        "normalize_embedding": (False, "normalization of the embeddings"),
        "add_final_layer_norm": (False, "a last normalization"),
        "add_bias_logits": (False, "another bias of the logits"),
    }
)
_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


def read_transformers(path: Path) -> ImportedModel:
    """Returns a MarianMT model.

    Args:
        path: A folder with config.json, model.safetensors or pytorch_model.bin, whole
            or in parts, vocab.json, source.spm and target.spm, as `save_pretrained`
            writes it.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or
            this project has no such architecture.
    """
    config = _read_json(path / "config.json")
    _check_architecture(path, config)
    arrays, weights_files = _open_weights(path)
    generation = read_generation(path, config)
    maps, vocabulary_files = _read_vocabularies(path, config)
    source, target = maps
    tables = _find_tables(arrays, config)
    start, source, target = _find_start(
        arrays, config, generation, tables[1], source, target
    )
    weights = _map_weights(arrays, config, tables, target, source)
    if len(target.pieces) > len(maps[1].pieces):  # by a piece for the start
        _forbid_last(weights)
    _check_ignored(arrays, config, tables)
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


def _read_json(path: Path) -> dict[str, Any]:
    return read_settings(path, FOLDER)


def _open_weights(path: Path) -> tuple[Arrays, list[Path]]:
    """Returns the arrays of a folder, and the files that have them."""
    found = [path / name for name in _WEIGHTS if (path / name).is_file()]
    if not found:
        raise UserError(f"{path} must have one of {', '.join(_WEIGHTS)}.")

    def open_file(file: Path) -> Arrays:
        is_torch = file.suffix == ".bin"
        return TorchArrays(file) if is_torch else SafetensorsArrays(file)

    if found[0].suffix != ".json":
        return open_file(found[0]), found[:1]
    arrays = ShardedArrays(found[0], open_file)
    return arrays, [found[0], *arrays.files]


def _check_architecture(path: Path, config: Mapping[str, Any]) -> None:
    for name, (expected, about) in _REQUIRED.items():
        # False is the default of MarianConfig for all others.
        value = config.get(name, name == "static_position_embeddings")
        if value != expected:
            raise UserError(
                f"{path} cannot be imported: it has {about}. Expected {name} "
                f"{expected}. Received: {value}"
            )
    if config.get("activation_function", "gelu") not in ACTIVATIONS:
        raise UserError(
            f"{path} has the activation {config['activation_function']}, which is not "
            f"one of {', '.join(ACTIVATIONS)}."
        )
    heads = [config.get(f"{side}_attention_heads") for side in ("encoder", "decoder")]
    widths = [config.get(f"{side}_ffn_dim") for side in ("encoder", "decoder")]
    for name, values in (("heads", heads), ("widths of feed-forward layers", widths)):
        if values[0] != values[1] or not isinstance(values[0], int):
            raise UserError(
                f"{path} must have the same number of {name} in encoder and decoder. "
                f"Received: {values[0]} and {values[1]}"
            )


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


def _find_tables(arrays: Arrays, config: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the names of the embeddings of encoder and decoder.

    Since transformers 5, tie_word_embeddings=False unties these two as well. Files of
    older releases have the shared one alone, or copies of it.
    """
    own = ENCODER_EMBEDDING, DECODER_EMBEDDING
    if not config.get("share_encoder_decoder_embeddings", True):
        return own
    if config.get("tie_word_embeddings", True):
        return SHARED, SHARED
    shared = arrays.read(SHARED)
    encoder, decoder = (
        name
        if name in arrays.names and not np.array_equal(arrays.read(name), shared)
        else SHARED
        for name in own
    )
    return encoder, decoder


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
    ids = _read_json(path)
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
    file = path / "tokenizer_config.json"
    config = _read_json(file) if file.is_file() else {}
    names = (config.get("source_lang"), config.get("target_lang"))
    source, target = (
        name if isinstance(name, str) and name.isalpha() else None for name in names
    )
    return source, target


def _model_config(
    config: Mapping[str, Any], weights: Mapping[str, ReadWeight], start: str
) -> ModelConfig:
    return ModelConfig(
        num_layers=config["encoder_layers"],
        encoder_layers=config["encoder_layers"],
        decoder_layers=config["decoder_layers"],
        d_model=config["d_model"],
        d_ff=config["encoder_ffn_dim"],
        num_heads=config["encoder_attention_heads"],
        dropout_rate=float(config.get("dropout", 0.1)),
        attention_dropout_rate=float(config.get("attention_dropout", 0.0)),
        layer_norm_epsilon=EPSILON,
        activation=ACTIVATIONS[config.get("activation_function", "gelu")],
        attention_bias=True,
        **embedding_options(weights),
        position_layout="halves",
        decoder_start=start,
    )


def _map_weights(
    arrays: Arrays,
    config: Mapping[str, Any],
    tables: tuple[str, str],
    target: IdMap,
    source: IdMap,
) -> dict[str, ReadWeight]:
    """Returns our weights as functions that read theirs."""
    weights: dict[str, ReadWeight] = {
        "embedding/embeddings": target.rows(arrays.reader(tables[1]))
    }
    if tables[0] != tables[1]:
        rows = source.rows(arrays.reader(tables[0]))
        weights["source_embedding/embeddings"] = rows
    if not config.get("tie_word_embeddings", True):
        weights["embedding/output_matrix"] = target.rows(arrays.reader(OUTPUT))
    weights["embedding/output_bias"] = target.rows(arrays.vector(BIAS))
    for stack in ("encoder", "decoder"):
        for layer in range(config[f"{stack}_layers"]):
            for name in layer_names(stack, layer):
                read = arrays.reader(name.theirs)
                weights[name.ours] = transposed(read) if name.is_kernel else read
    return weights


def _forbid_last(weights: dict[str, ReadWeight]) -> None:
    """Changes the logits' bias so that the last piece is never likely."""
    read = weights["embedding/output_bias"]

    def read_bias() -> np.ndarray:
        bias_V = read()[:]
        bias_V[-1] = NO_LOGIT
        return bias_V

    weights["embedding/output_bias"] = read_bias


def _check_ignored(
    arrays: Arrays, config: Mapping[str, Any], used: tuple[str, str]
) -> None:
    """Raises `UserError` if a copy, which older releases stored, differs."""
    tables: dict[str, ReadArray] = {}
    if SHARED in arrays.names:
        arrays.read(SHARED)
    copies = {ENCODER_EMBEDDING: used[0], DECODER_EMBEDDING: used[1]}
    if config.get("tie_word_embeddings", True):
        copies[OUTPUT] = used[1]
    for name, original in copies.items():
        if name != original:
            tables[name] = arrays.reader(original)
    for stack in ("encoder", "decoder"):
        name = f"model.{stack}.embed_positions.weight"
        if name in arrays.names:
            length = arrays.shape(name)[0]
            tables[name] = lambda length=length: sinusoids(
                length, config["d_model"], "halves"
            )
    for name, read in tables.items():
        if name not in arrays.names:
            continue
        expected, value = read(), arrays.reader(name)()
        tolerance = rounding(arrays.read(name), 1e-5)
        if value.shape != expected.shape or np.abs(value - expected).max() > tolerance:
            raise UserError(
                f"{name} in {arrays.path} has other numbers than a MarianMT model "
                "computes. Such a model cannot be imported."
            )
