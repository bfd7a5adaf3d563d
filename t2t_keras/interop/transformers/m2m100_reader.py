"""Reader of M2M100 and NLLB models of Hugging Face transformers.

Both are pre-norm Transformers whose text begins with the piece of its language. The
decoder starts from the end of a sentence, and its first output is given: the piece of
the target language.

Source: transformers 5, models/m2m_100/modeling_m2m_100.py; measured against
transformers (docs/convert.md).

Shapes: L positions, D model width.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import (
    IdMap,
    ImportedModel,
    ReadWeight,
    check_allowed,
)
from t2t_keras.interop.known_positions import sinusoids
from t2t_keras.interop.transformers.folder import (
    check_copies,
    check_sizes,
    find_tables,
    map_weights,
    model_options,
    open_weights,
)
from t2t_keras.interop.transformers.generation import (
    decoding_config,
    read_generation,
)
from t2t_keras.interop.transformers.m2m100_tokenizer import PAD, open_tokenizer
from t2t_keras.interop.transformers.names import STACKS
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.text.vocabulary import PAD_ID

# Possible values of settings, the default first, and what a model with another one is.
_ALLOWED = MappingProxyType(
    {
        "scale_embedding": (
            (True,),
            "embeddings that are not scaled by sqrt(d_model)",
        ),
        "pad_token_id": ((PAD,), "another number of padding, from which it counts"),
    }
)


def read_m2m100(
    path: Path,
    config: Mapping[str, Any],
    languages: tuple[str | None, str | None],
) -> ImportedModel:
    """Returns a model of M2M100 or NLLB.

    Args:
        path: A folder with config.json, model.safetensors or pytorch_model.bin, whole
            or in parts, and the tokenizer's files; see `open_tokenizer`.
        config: Content of config.json.
        languages: Codes of source and target language of a request that names none.
            Default: those of the tokenizer's settings.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or
            this project has no such architecture.
    """
    check_allowed(path / "config.json", config, _ALLOWED)
    check_sizes(path, config, "relu")
    arrays, weights_files = open_weights(path)
    generation = read_generation(path, config)
    tokenizer = open_tokenizer(
        path, config["vocab_size"], languages, generation.get("forced_bos_token_id")
    )
    ids = tokenizer.ids
    tables = find_tables(arrays, config)
    weights = map_weights(arrays, config, tables, ids, ids)
    for stack in STACKS:
        for ours, theirs in (("gamma", "weight"), ("beta", "bias")):
            name = f"model.{stack}.layer_norm.{theirs}"
            weights[f"{stack}/norm/{ours}"] = arrays.reader(name)
    # Older releases stored the sinusoids.
    width = config["d_model"]
    positions = {"weights": lambda length: _positions(length, width)}
    check_copies(arrays, config, tables, positions)
    arrays.check_all_used()
    others = {
        name: value
        for name, value in generation.items()
        # The language that it names is in the vocabulary.
        if name != "forced_bos_token_id" or value not in tokenizer.language_ids
    }
    decoding, warnings = decoding_config(others, ids)
    return ImportedModel(
        model=_model_config(config, weights, _find_start(path, config, others, ids)),
        decoding=decoding,
        vocabulary=tokenizer.vocabulary,
        weights=weights,
        original_ids=ids.original_ids,
        files=[
            *weights_files,
            path / "config.json",
            *tokenizer.files,
            *filter(Path.is_file, [path / "generation_config.json"]),
        ],
        settings={"config": config, "generation": generation},
        languages=tokenizer.languages,
        warnings=[*warnings, *tokenizer.warnings],
    )


def _positions(length: int, width: int) -> np.ndarray:
    """Returns [L, D] sinusoids as they are stored: that of padding is zero."""
    table_LD = sinusoids(length, width, "halves_t2t")
    table_LD[PAD] = 0.0
    return table_LD


def _find_start(
    path: Path, config: Mapping[str, Any], generation: Mapping[str, Any], ids: IdMap
) -> str:
    """Returns the setting `decoder_start`: the piece that the decoder starts from."""
    start = generation.get("decoder_start_token_id")
    start = config.get("decoder_start_token_id", 2) if start is None else start
    own_id = ids.original_ids.index(start) if start in ids.original_ids else PAD_ID
    if own_id == PAD_ID:
        raise UserError(
            f"{path} must have the decoder_start_token_id of a piece that is not "
            f"padding; 2 is </s>. Received: {start}"
        )
    return ids.pieces[own_id]


def _model_config(
    config: Mapping[str, Any], weights: Mapping[str, ReadWeight], start: str
) -> ModelConfig:
    return ModelConfig(
        **model_options(config, weights, activation="relu", attention_dropout=0.1),
        normalization="pre",
        position_layout="halves_t2t",
        # Positions are counted from the number of padding on.
        first_position=PAD + 1,
        decoder_start=start,
    )
