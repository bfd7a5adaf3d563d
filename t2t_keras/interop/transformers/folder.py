"""Files, sizes and layers that all models of a folder of transformers have.

Shapes: V vocabulary, D model width.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import Arrays, SafetensorsArrays, ShardedArrays
from t2t_keras.interop.imported_model import (
    IdMap,
    ReadArray,
    ReadWeight,
    embedding_options,
    read_settings,
    transposed,
)
from t2t_keras.interop.known_positions import rounding
from t2t_keras.interop.torch_file import TorchArrays
from t2t_keras.interop.transformers.names import (
    ACTIVATIONS,
    DECODER_EMBEDDING,
    ENCODER_EMBEDDING,
    EPSILON,
    OUTPUT,
    SHARED,
    STACKS,
    layer_names,
)

FOLDER = "a folder that save_pretrained of transformers wrote"
"""What the input must be, for messages."""
_PART_ROWS = 4096
_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


def read_json(path: Path) -> dict[str, Any]:
    """Returns the names and values of a file of the folder.

    Raises:
        UserError: If it cannot be read.
    """
    return read_settings(path, FOLDER)


def read_json_if_there(path: Path) -> dict[str, Any]:
    """Returns the names and values of a file of the folder; none without the file.

    Raises:
        UserError: If it cannot be read.
    """
    return read_json(path) if path.is_file() else {}


def open_weights(path: Path) -> tuple[Arrays, list[Path]]:
    """Returns the arrays of a folder, and the files that have them.

    Raises:
        UserError: If there are none, or a file cannot be read.
    """
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


def check_sizes(path: Path, config: Mapping[str, Any], activation: str) -> None:
    """Raises `UserError` if no Transformer of this project has such sizes.

    Args:
        path: The folder, for messages.
        config: Content of config.json.
        activation: Default of the setting activation_function.
    """
    if config.get("activation_function", activation) not in ACTIVATIONS:
        raise UserError(
            f"{path} has the activation {config['activation_function']}, which is not "
            f"one of {', '.join(ACTIVATIONS)}."
        )
    heads = [config.get(f"{side}_attention_heads") for side in STACKS]
    widths = [config.get(f"{side}_ffn_dim") for side in STACKS]
    for name, values in (("heads", heads), ("widths of feed-forward layers", widths)):
        if values[0] != values[1] or not isinstance(values[0], int):
            raise UserError(
                f"{path} must have the same number of {name} in encoder and decoder. "
                f"Received: {values[0]} and {values[1]}"
            )


def model_options(
    config: Mapping[str, Any],
    weights: Mapping[str, ReadWeight],
    *,
    activation: str,
    attention_dropout: float,
) -> dict[str, Any]:
    """Returns the settings of a model that all architectures have.

    Args:
        config: Content of config.json, which `check_sizes` accepts.
        weights: Readers of our weights.
        activation: Default of the setting activation_function.
        attention_dropout: Default of the setting of that name.
    """
    return {
        "num_layers": config["encoder_layers"],
        "encoder_layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "d_model": config["d_model"],
        "d_ff": config["encoder_ffn_dim"],
        "num_heads": config["encoder_attention_heads"],
        "dropout_rate": float(config.get("dropout", 0.1)),
        "attention_dropout_rate": float(
            config.get("attention_dropout", attention_dropout)
        ),
        "layer_norm_epsilon": EPSILON,
        "activation": ACTIVATIONS[config.get("activation_function", activation)],
        "attention_bias": True,
        **embedding_options(weights),
    }


def find_tables(arrays: Arrays, config: Mapping[str, Any]) -> tuple[str, str]:
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


def map_weights(
    arrays: Arrays,
    config: Mapping[str, Any],
    tables: tuple[str, str],
    target: IdMap,
    source: IdMap,
) -> dict[str, ReadWeight]:
    """Returns embeddings and layers of ours as functions that read theirs.

    Args:
        arrays: The arrays.
        config: Content of config.json.
        tables: Result of `find_tables`.
        target: Ids of targets.
        source: Ids of sources.
    """
    weights: dict[str, ReadWeight] = {
        "embedding/embeddings": target.rows(arrays.reader(tables[1]))
    }
    if tables[0] != tables[1]:
        rows = source.rows(arrays.reader(tables[0]))
        weights["source_embedding/embeddings"] = rows
    if not config.get("tie_word_embeddings", True):
        weights["embedding/output_matrix"] = target.rows(arrays.reader(OUTPUT))
    for stack in STACKS:
        for layer in range(config[f"{stack}_layers"]):
            for name in layer_names(stack, layer):
                read = arrays.reader(name.theirs)
                weights[name.ours] = transposed(read) if name.is_kernel else read
    return weights


def check_copies(
    arrays: Arrays,
    config: Mapping[str, Any],
    used: tuple[str, str],
    positions: Mapping[str, Callable[[int], np.ndarray]],
) -> None:
    """Raises `UserError` if a copy, which older releases stored, differs.

    Args:
        arrays: The arrays.
        config: Content of config.json.
        used: Result of `find_tables`.
        positions: Functions that return the encoding of a number of positions, by the
            end of its name.
    """
    if SHARED in arrays.names:
        arrays.read(SHARED)
    for name, read in _list_copies(arrays, config, used, positions).items():
        expected, value = read(), arrays.reader(name)()
        tolerance = rounding(arrays.read(name), 1e-5)
        if value.shape != expected.shape or _difference(value, expected) > tolerance:
            raise UserError(
                f"{name} in {arrays.path} has other numbers than such a model "
                "computes. It cannot be imported."
            )


def _list_copies(
    arrays: Arrays,
    config: Mapping[str, Any],
    used: tuple[str, str],
    positions: Mapping[str, Callable[[int], np.ndarray]],
) -> dict[str, ReadArray]:
    """Returns the names of arrays that are copies, and readers of what they copy."""
    tables: dict[str, ReadArray] = {}
    copies = {ENCODER_EMBEDDING: used[0], DECODER_EMBEDDING: used[1]}
    if config.get("tie_word_embeddings", True):
        copies[OUTPUT] = used[1]
    for name, original in copies.items():
        if name != original:
            tables[name] = arrays.reader(original)
    for stack in STACKS:
        for end, encode in positions.items():
            name = f"model.{stack}.embed_positions.{end}"
            if name in arrays.names:
                length = arrays.shape(name)[0]
                tables[name] = functools.partial(encode, length)
    return {name: read for name, read in tables.items() if name in arrays.names}


def _difference(array: np.ndarray, other: np.ndarray) -> float:
    """Returns the largest difference of two arrays, in parts to save memory."""
    parts = (slice(i, i + _PART_ROWS) for i in range(0, len(array), _PART_ROWS))
    return max(float(np.abs(array[part] - other[part]).max()) for part in parts)
