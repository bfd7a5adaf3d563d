"""Reader of Tensor2Tensor's translation models.

Source: tensor2tensor 1.15, models/transformer.py, layers/transformer_layers.py,
layers/common_attention.py, layers/common_layers.py and layers/modalities.py.

Shapes: V vocabulary, D model width.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import Arrays
from t2t_keras.interop.checkpoint_file import (
    CheckpointArrays,
    checkpoint_files,
    find_checkpoint,
)
from t2t_keras.interop.imported_model import (
    IdMap,
    ImportedModel,
    ReadArray,
    ReadWeight,
    ReorderedRows,
    check_allowed,
    embedding_options,
    read_pieces,
    read_settings,
    without_dropout,
)
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.t2t_subwords import RESERVED, T2TSubwordTokenizer

# Settings that must have one of some values, and what a model with another value is.
_REQUIRED: Mapping[str, tuple[Sequence[Any], str]] = MappingProxyType(
    {
        "pos": (("timing",), "other positions"),
        "ffn_layer": (
            ("dense_relu_dense", "conv_hidden_relu"),
            "other feed-forward networks, as of MoE",
        ),
        "self_attention_type": (("dot_product",), "another attention"),
        "norm_type": (("layer",), "another normalization"),
        "proximity_bias": ((False,), "a bias for near positions"),
        "max_relative_position": ((0,), "relative positions"),
        "prepend_mode": (("none",), "targets that begin with their source"),
        "multiply_embedding_mode": (("sqrt_depth",), "embeddings that are not scaled"),
        "unidirectional_encoder": ((False,), "an encoder that looks back only"),
    }
)
# Steps before and after a sub-layer, dropout aside: post-norm, pre-norm.
_STEPS = (("none", "an"), ("n", "a"))
_PROJECTIONS = (("query", "q"), ("key", "k"), ("value", "v"))
# Begin the name of a model's variable; others belong to its training.
_SCOPE = "transformer/"
_SHARD = re.compile(r"(transformer/symbol_modality_\d+_\d+/\w+)/weights_\d+")


def read_tensor2tensor(path: Path, target_space: int = 0) -> ImportedModel:
    """Returns a Transformer of Tensor2Tensor.

    Args:
        path: A folder with a checkpoint, hparams.json and the vocabulary
            `*.subwords` that the problem was generated with.
        target_space: `target_space_id` of the problem, whose vector is added to every
            source. Text problems of release 1.15 have 0.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or
            this project has no such architecture.
    """
    hparams = _read_hparams(path)
    places = "preprocess", "postprocess"
    received = tuple(hparams.get(f"layer_{place}_sequence") for place in places)
    steps = without_dropout(received)
    if steps not in _STEPS:
        raise UserError(
            f"{path} has the steps {received} before and after its layers. Only "
            f"{_STEPS[0]}, post-norm, and {_STEPS[1]}, pre-norm, can be imported, with "
            "or without d, dropout."
        )
    checkpoint = find_checkpoint(path)
    arrays = CheckpointArrays(checkpoint, lambda name: name.startswith(_SCOPE))
    tables = _find_tables(arrays)
    target, target_file = _read_vocabulary(path, tables["target"], arrays)
    source, source_file = target, target_file
    if tables["source"] != tables["target"]:
        source, source_file = _read_vocabulary(path, tables["source"], arrays)
        if source.pieces == target.pieces:
            source = target
    pre_norm = steps == _STEPS[1]
    weights = _map_embeddings(arrays, tables, (source, target), target_space)
    layers = _count_layers(hparams)
    for stack, count in layers.items():
        for layer in range(count):
            weights |= _map_layer(arrays, stack, layer)
        if pre_norm:
            theirs = f"{_SCOPE}body/{stack}/layer_prepostprocess/layer_norm/layer_norm_"
            weights |= _map_norm(arrays, theirs, f"{stack}/norm")
    arrays.check_all_used()
    joint = source is target
    return ImportedModel(
        model=_model_config(hparams, layers, pre_norm, weights),
        # The defaults of its decoding.
        decoding=DecodingConfig(beam_size=4, alpha=0.6, extra_length=100),
        vocabulary=_vocabulary(source, target),
        weights=weights,
        original_ids=target.original_ids,
        source_original_ids=None if joint else source.original_ids,
        files=[
            path / "hparams.json",
            *checkpoint_files(checkpoint),
            *dict.fromkeys((source_file, target_file)),
        ],
        settings={"hparams": hparams, "target_space_id": target_space},
    )


def _read_hparams(path: Path) -> dict[str, Any]:
    hparams = read_settings(
        path / "hparams.json",
        "a folder of Tensor2Tensor, with checkpoint, hparams.json and *.subwords",
    )
    check_allowed(path, hparams, _REQUIRED)
    return hparams


def _find_tables(arrays: CheckpointArrays) -> dict[str, str]:
    """Returns the beginning of the names of each embedding's shards."""
    names = {
        match[1]
        for name in arrays.names
        if (match := _SHARD.fullmatch(name)) is not None
    }

    def find(*scopes: str) -> str:
        found = [name for name in names if name.rpartition("/")[2] in scopes]
        if len(found) != 1:
            raise UserError(
                f"{arrays.path} must have one embedding {' or '.join(scopes)}. Found: "
                f"{', '.join(sorted(found)) or 'none'}. It is no translation model."
            )
        return found[0]

    return {
        "source": find("shared", "input_emb"),
        "target": find("shared", "target_emb"),
        "output": find("softmax")
        if any(name.endswith("/softmax") for name in names)
        else find("shared"),
    }


def _shards(arrays: CheckpointArrays, table: str) -> list[str]:
    """Returns the names of a table's parts, in order."""
    names: list[str] = []
    while f"{table}/weights_{len(names)}" in arrays.names:
        names.append(f"{table}/weights_{len(names)}")
    return names


def _read_vocabulary(
    path: Path, table: str, arrays: CheckpointArrays
) -> tuple[IdMap, Path]:
    """Returns the ids of a vocabulary, the one with as many subwords as a table."""
    rows = sum(arrays.shape(name)[0] for name in _shards(arrays, table))
    read = {file: read_subwords(file) for file in sorted(path.glob("*.subwords"))}
    fitting = [file for file, subwords in read.items() if len(subwords) == rows]
    if len(fitting) != 1:
        sizes = ", ".join(f"{file.name}: {len(read[file])}" for file in read) or "none"
        raise UserError(
            f"{path} must have one vocabulary *.subwords of {rows} subwords, the "
            f"model's rows. Found: {sizes}"
        )
    subwords = read[fitting[0]]
    if tuple(subwords[:2]) not in (RESERVED, tuple(f"{each}_" for each in RESERVED)):
        raise UserError(
            f"{fitting[0]} must begin with {', '.join(RESERVED)}. Received: "
            f"{', '.join(subwords[:2])}"
        )
    return IdMap.from_pieces(subwords, pad=0, eos=1, unk=None), fitting[0]


def read_subwords(path: Path) -> list[str]:
    """Returns the subwords in a file, by id: one a line, most often in quotes.

    Raises:
        UserError: If it cannot be read, is not UTF-8.
    """
    subwords = []
    for line in map(str.rstrip, read_pieces(path)):
        quoted = len(line) > 1 and line[0] == line[-1] and line[0] in "'\""
        subwords.append(line[1:-1] if quoted else line)
    return subwords


def _vocabulary(source: IdMap, target: IdMap) -> PieceVocabulary:
    def open_side(ids: IdMap, of_source: PieceVocabulary | None) -> PieceVocabulary:
        tokenizer = T2TSubwordTokenizer(ids.pieces[3:])
        return PieceVocabulary(ids.pieces, tokenizer, of_source)

    return open_side(target, None if source is target else open_side(source, None))


def _count_layers(hparams: Mapping[str, Any]) -> dict[str, int]:
    return {
        stack: hparams.get(f"num_{stack}_layers") or hparams["num_hidden_layers"]
        for stack in ("encoder", "decoder")
    }


def _model_config(
    hparams: Mapping[str, Any],
    layers: Mapping[str, int],
    pre_norm: bool,
    weights: Mapping[str, ReadWeight],
) -> ModelConfig:
    width, heads = hparams["hidden_size"], hparams["num_heads"]
    sizes = {
        ours: (hparams.get(f"attention_{theirs}_channels") or width) // heads
        for ours, theirs in (("d_k", "key"), ("d_v", "value"))
    }
    return ModelConfig(
        num_layers=layers["encoder"],
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_model=width,
        d_ff=hparams["filter_size"],
        num_heads=heads,
        **sizes,
        dropout_rate=float(hparams.get("layer_prepostprocess_dropout", 0.1)),
        attention_dropout_rate=float(hparams.get("attention_dropout", 0.0)),
        normalization="pre" if pre_norm else "post",
        layer_norm_epsilon=float(hparams.get("norm_epsilon", 1e-6)),
        **embedding_options(weights),
        position_layout="halves_t2t",
    )


def _map_embeddings(
    arrays: CheckpointArrays,
    tables: Mapping[str, str],
    ids: tuple[IdMap, IdMap],
    target_space: int,
) -> dict[str, ReadWeight]:
    """Returns the embeddings; the source's has the vector of the target space."""
    source, target = ids

    def reader(name: str) -> ReadArray:
        parts = [arrays.reader(shard) for shard in _shards(arrays, tables[name])]
        return lambda: np.concatenate([part() for part in parts])

    weights: dict[str, ReadWeight] = {
        "embedding/embeddings": target.rows(reader("target"))
    }
    space = f"{_SCOPE}body/target_space_embedding/kernel"
    rows = source.rows(reader("source"))
    if space in arrays.names:
        count = arrays.shape(space)[0]
        if not 0 <= target_space < count:
            raise UserError(
                f"--target_space_id must be from 0 to {count - 1}. "
                f"Received: {target_space}"
            )
        weights["source_embedding/embeddings"] = functools.partial(
            _add_vector, rows, arrays.reader(space), target_space
        )
    elif tables["source"] != tables["target"]:
        weights["source_embedding/embeddings"] = rows
    if tables["output"] != tables["target"]:
        weights["embedding/output_matrix"] = target.rows(reader("output"))
    # Tensor2Tensor has no unknown token, so a row is added.
    return weights | target.output_bias(None)


def _add_vector(
    rows: Callable[[], ReorderedRows], vectors: ReadArray, number: int
) -> np.ndarray:
    """Returns rows that give, times sqrt(D), the scaled rows plus a vector."""
    vector = vectors()[number]
    return rows()[:] + vector / np.float32(len(vector) ** 0.5)


def _map_layer(
    arrays: CheckpointArrays, stack: str, layer: int
) -> dict[str, ReadArray]:
    theirs, ours = f"{_SCOPE}body/{stack}/layer_{layer}", f"{stack}/layer_{layer}"
    parts = [("self_attention", "attention", "attention_residual")]
    if stack == "decoder":
        parts.append(("encdec_attention", "memory_attention", "memory_residual"))
    weights: dict[str, ReadArray] = {}
    for name, attention, residual in parts:
        prefix = f"{theirs}/{name}/multihead_attention"
        for our_name, letter in (*_PROJECTIONS, ("output", "output_transform")):
            kernel = f"{prefix}/{letter}/kernel"
            if kernel in arrays.names and len(arrays.shape(kernel)) != 2:
                raise UserError(
                    f"{arrays.path} cannot be imported: its attention kernels have "
                    f"{len(arrays.shape(kernel))} axes, and only 2 are possible."
                )
            weights[f"{ours}/{attention}/{our_name}_kernel"] = arrays.reader(kernel)
        norm = _norm_prefix(arrays, f"{theirs}/{name}")
        weights |= _map_norm(arrays, norm, f"{ours}/{residual}/norm")
    for name, our_name in (("conv1", "inner"), ("conv2", "outer")):
        for part in ("kernel", "bias"):
            path = f"{ours}/feed_forward/{our_name}/{part}"
            weights[path] = arrays.reader(f"{theirs}/ffn/{name}/{part}")
    norm = _norm_prefix(arrays, f"{theirs}/ffn")
    return weights | _map_norm(arrays, norm, f"{ours}/feed_forward_residual/norm")


def _norm_prefix(arrays: CheckpointArrays, scope: str) -> str:
    """Returns the beginning of the names of a sub-layer's normalization.

    TensorFlow counts scopes of equal names: before a sub-layer it is the first, after
    it the second.
    """
    first, second = (
        f"{scope}/layer_prepostprocess{number}/layer_norm/layer_norm_"
        for number in ("", "_1")
    )
    return second if f"{second}scale" in arrays.names else first


def _map_norm(arrays: Arrays, theirs: str, ours: str) -> dict[str, ReadArray]:
    return {
        f"{ours}/gamma": arrays.reader(f"{theirs}scale"),
        f"{ours}/beta": arrays.reader(f"{theirs}bias"),
    }
