"""Reader of CTranslate2's models.

Source: CTranslate2 4.8, src/models and src/layers, for what variables mean and their
defaults.

Shapes: V vocabulary, D model width, H heads, L positions.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import Arrays
from t2t_keras.interop.ctranslate2.model_bin import BinaryArrays
from t2t_keras.interop.imported_model import (
    IdMap,
    ImportedModel,
    ReadArray,
    ReadWeight,
    check_rows,
    embedding_options,
    read_settings,
    transposed,
)
from t2t_keras.interop.known_positions import recognize
from t2t_keras.interop.sentencepiece_pair import open_piece_vocabulary
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig

# Names of models, and their number of heads where no variable has it.
_SPECS = MappingProxyType(
    {"TransformerSpec": None, "TransformerBase": 8, "TransformerBig": 16}
)
_ACTIVATIONS = MappingProxyType({0: "relu", 2: "swish", 3: "gelu"})
# Scalars of options that must be off, and those that then change nothing.
_MUST_BE_OFF = ("alibi", "sliding_window", "multi_query_attention")
_WITHOUT_EFFECT = ("alignment_layer", "alignment_heads", "embeddings_merge")
_WITHOUT_EFFECT += ("alibi_use_positive_positions", "scale_alibi", "head_dim")


def read_ctranslate2(path: Path) -> ImportedModel:
    """Returns a model of CTranslate2.

    Args:
        path: A folder with model.bin and vocabularies, shared_vocabulary or
            source_vocabulary and target_vocabulary, `.json` or `.txt`. It may have
            source.spm and target.spm, which split lines into pieces; without them, a
            line is words between spaces.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or
            this project has no such architecture.
    """
    arrays = BinaryArrays(path / "model.bin")
    if any(name.endswith("weight_scale") for name in arrays.names):
        raise UserError(
            f"{path} cannot be imported: its weights are quantized. Convert the model "
            "to float32, float16 or bfloat16."
        )
    if arrays.spec not in _SPECS:
        raise UserError(
            f"{path} cannot be imported: it is a {arrays.spec}. Expected a translation "
            f"model: {', '.join(_SPECS)}"
        )
    config_file = path / "config.json"
    config = _read_config(config_file, arrays)
    source, target, files = _read_vocabularies(path, config, arrays)
    weights = _map_weights(arrays, target, source, _num_heads(arrays, "encoder"))
    model = _model_config(arrays, config, weights)
    _check_options(arrays)
    arrays.check_all_used()
    own = path / "vocabulary.model"  # of an export of this project
    vocabulary, spm_files = open_piece_vocabulary(
        path, source, target, [own] if own.is_file() else None
    )
    return ImportedModel(
        model=model,
        # The defaults of its translate_batch.
        decoding=DecodingConfig(beam_size=2, alpha=1.0, length_penalty="power"),
        vocabulary=vocabulary,
        weights=weights,
        original_ids=target.original_ids,
        source_original_ids=None if source is target else source.original_ids,
        files=[path / "model.bin", *files, *spm_files]
        + [config_file] * config_file.is_file(),
        settings={"spec": arrays.spec, "revision": arrays.revision, "config": config},
    )


def _check_options(arrays: BinaryArrays) -> None:
    """Raises `UserError` if an option of other architectures is on."""
    for name in sorted(arrays.names):
        option = name.rpartition("/")[2]
        if option not in (*_MUST_BE_OFF, *_WITHOUT_EFFECT):
            continue
        value = arrays.scalar(name, 0)
        if value and option in _MUST_BE_OFF:
            raise UserError(
                f"{arrays.path} cannot be imported: {name} is {value}, an option that "
                "this project does not have."
            )


def _num_heads(arrays: BinaryArrays, stack: str) -> int:
    return int(_of_stack(arrays, stack, "num_heads", _SPECS[arrays.spec] or 8))


def _read_config(path: Path, arrays: BinaryArrays) -> dict[str, Any]:
    """Returns the settings, which were variables in older files."""
    config: dict[str, Any] = {
        "add_source_eos": bool(arrays.scalar("with_source_eos", 0)),
        "add_source_bos": bool(arrays.scalar("with_source_bos", 0)),
        "decoder_start_token": "<s>" if arrays.scalar("with_target_bos", 1) else "</s>",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "layer_norm_epsilon": None,
    }
    if path.is_file():
        config |= read_settings(path, "a folder of CTranslate2")
    if config["add_source_bos"]:
        raise UserError(
            f"{arrays.path.parent} cannot be imported: its sources begin with "
            f"{config['bos_token']}, which is not possible here."
        )
    return config


def _read_vocabularies(
    path: Path, config: Mapping[str, Any], arrays: BinaryArrays
) -> tuple[IdMap, IdMap, list[Path]]:
    """Returns the ids of source and target, one object if they are the same."""
    shared = _find_vocabulary(path, "shared")
    names = ("shared",) if shared else ("source", "target")
    maps, files = [], []
    for name in names:
        file = _find_vocabulary(path, name)
        if file is None:
            raise UserError(f"{path} has no {name}_vocabulary.json or .txt.")
        side = "encoder" if name == "source" else "decoder"
        table = _embeddings(arrays, side)
        pieces = _read_pieces(file)
        rows = arrays.shape(table)[0]
        if config["unk_token"] not in pieces and len(pieces) == rows - 1:
            pieces.append(config["unk_token"])  # as CTranslate2 does
        check_rows(file, pieces, rows)
        if config["eos_token"] not in pieces:
            raise UserError(f"{file} must have {config['eos_token']}.")
        ids = {piece: i for i, piece in enumerate(pieces)}
        pad = next((ids[p] for p in ("<blank>", "<pad>") if p in ids), None)
        special = {"eos": ids[config["eos_token"]], "unk": ids.get(config["unk_token"])}
        maps.append(IdMap.from_pieces(pieces, pad=pad, **special))
        files.append(file)
    return maps[0], maps[-1], files


def _find_vocabulary(path: Path, name: str) -> Path | None:
    files = (path / f"{name}_vocabulary.{ending}" for ending in ("json", "txt"))
    return next((file for file in files if file.is_file()), None)


def _read_pieces(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode("utf-8")
        if path.suffix == ".json":
            return [str(piece) for piece in json.loads(text)]
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}.") from error
    return text.removesuffix("\n").split("\n")


def _embeddings(arrays: Arrays, stack: str) -> str:
    """Returns the name of a stack's embedding."""
    several = f"{stack}/embeddings_0/weight"
    return several if several in arrays.names else f"{stack}/embeddings/weight"


def _model_config(
    arrays: BinaryArrays, config: Mapping[str, Any], weights: Mapping[str, ReadWeight]
) -> ModelConfig:
    layers = {
        stack: sum(
            name.startswith(f"{stack}/layer_") and name.endswith("ffn/linear_0/weight")
            for name in arrays.names
        )
        for stack in ("encoder", "decoder")
    }
    width = arrays.shape(_embeddings(arrays, "encoder"))[1]
    scalars = {
        stack: (
            _num_heads(arrays, stack),
            bool(_of_stack(arrays, stack, "pre_norm", 1)),
            int(_of_stack(arrays, stack, "activation", 0)),
            _positions(arrays, stack, width),
        )
        for stack in ("encoder", "decoder")
    }
    for stack in ("encoder", "decoder"):
        _check_scale(arrays, stack, width)
    if scalars["encoder"] != scalars["decoder"]:
        raise UserError(
            f"{arrays.path} cannot be imported: heads, normalization, activation and "
            "positions must be the same in encoder and decoder. Received: "
            f"{scalars['encoder']} and {scalars['decoder']}"
        )
    heads, pre_norm, activation, (layout, first) = scalars["encoder"]
    if activation not in _ACTIVATIONS:
        raise UserError(
            f"{arrays.path} cannot be imported: it has the activation {activation}, "
            "and only 0 (ReLU), 2 (swish) and 3 (exact GELU) are possible."
        )
    epsilon = config["layer_norm_epsilon"]
    zero = bool(arrays.scalar("decoder/start_from_zero_embedding", 0))
    return ModelConfig(
        num_layers=layers["encoder"],
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_model=width,
        d_ff=arrays.shape("encoder/layer_0/ffn/linear_0/weight")[0],
        num_heads=heads,
        d_k=_width(arrays) // heads,
        d_v=_width(arrays) // heads,
        normalization="pre" if pre_norm else "post",
        layer_norm_epsilon=1e-5 if epsilon is None else float(epsilon),
        activation=_ACTIVATIONS[activation],
        attention_bias="encoder/layer_0/attention/query_bias" in weights,
        **embedding_options(weights),
        # Converted from transformers, a model of Marian leaves its end to the caller.
        source_eos=bool(config["add_source_eos"]) or zero,
        position_layout=layout,
        first_position=first,
        decoder_start="zero" if zero else _start(arrays.path, config),
    )


def _width(arrays: BinaryArrays) -> int:
    """Returns the width of the queries of all heads together."""
    return arrays.shape("encoder/layer_0/self_attention/linear_0/weight")[0] // 3


def _start(path: Path, config: Mapping[str, Any]) -> str:
    """Returns our name of the piece that the decoder starts from."""
    start: str | None = config["decoder_start_token"]
    if not start:
        raise UserError(
            f"{path} cannot be imported: the user of the model chooses the token that "
            "its decoder starts from."
        )
    special: dict[str, str] = {config["eos_token"]: "</s>"}
    special[config["unk_token"]] = "<unk>"
    return special.get(start, start)


def _of_stack(arrays: BinaryArrays, stack: str, name: str, default: float) -> float:
    """Returns a number of a stack, which older files have for both stacks."""
    own = f"{stack}/{name}"
    return arrays.scalar(own if own in arrays.names else name, default)


def _check_scale(arrays: BinaryArrays, stack: str, width: int) -> None:
    """Raises `UserError` unless embeddings are multiplied by sqrt(D)."""
    old = f"{stack}/embeddings/multiply_by_sqrt_depth"
    for name in (f"{stack}/scale_embeddings", old):
        if name not in arrays.names:
            continue
        value = arrays.read(name)
        is_flag = value.dtype == np.int8
        if not (value.item() if is_flag else np.isclose(value.item(), width**0.5)):
            raise UserError(
                f"{arrays.path} cannot be imported: its embeddings are not multiplied "
                f"by the square root of their width. {name}: {value.item()}"
            )


def _positions(arrays: BinaryArrays, stack: str, width: int) -> tuple[str, int]:
    """Returns layout and first position; sinusoids from 1 if there is no table."""
    name = f"{stack}/position_encodings/encodings"
    if name not in arrays.names:
        return "halves_t2t", 1
    found = recognize(arrays.read(name))
    if found is None:
        raise UserError(
            f"{arrays.path} cannot be imported: {name} has no sinusoids. Learned "
            "positions are not possible."
        )
    return found


def _map_weights(
    arrays: BinaryArrays, target: IdMap, source: IdMap, heads: int
) -> dict[str, ReadWeight]:
    """Returns our weights as functions that read theirs."""
    theirs, of_source = (_embeddings(arrays, side) for side in ("decoder", "encoder"))
    output = "decoder/projection/weight"
    weights: dict[str, ReadWeight] = {
        "embedding/embeddings": target.rows(arrays.reader(theirs))
    }
    if source is not target or not _are_equal(arrays, of_source, theirs):
        rows = source.rows(arrays.reader(of_source))
        weights["source_embedding/embeddings"] = rows
    if not _are_equal(arrays, output, theirs):
        weights["embedding/output_matrix"] = target.rows(arrays.reader(output))
    bias = "decoder/projection/bias"
    has_bias = bias in arrays.names
    weights |= target.output_bias(arrays.reader(bias) if has_bias else None)
    for stack in ("encoder", "decoder"):
        layer = 0
        while f"{stack}/layer_{layer}/ffn/linear_0/weight" in arrays.names:
            weights |= _map_layer(arrays, stack, layer, heads)
            layer += 1
        if f"{stack}/layer_norm/gamma" in arrays.names:
            for name in ("gamma", "beta"):
                weights[f"{stack}/norm/{name}"] = arrays.reader(
                    f"{stack}/layer_norm/{name}"
                )
    return weights


def _are_equal(arrays: Arrays, name: str, other: str) -> bool:
    """Returns whether two matrices have the same numbers: they are one matrix then."""
    return np.array_equal(arrays.read(name), arrays.read(other))


def _map_layer(
    arrays: BinaryArrays, stack: str, layer: int, heads: int
) -> dict[str, ReadArray]:
    prefix = f"{stack}/layer_{layer}"
    weights = _map_attention(
        arrays, f"{prefix}/self_attention", f"{prefix}/attention", heads
    )
    norms = [("self_attention", "attention_residual"), ("ffn", "feed_forward_residual")]
    if stack == "decoder":
        weights |= _map_attention(
            arrays, f"{prefix}/attention", f"{prefix}/memory_attention", heads
        )
        norms.append(("attention", "memory_residual"))
    for theirs, ours in norms:
        for name in ("gamma", "beta"):
            reader = arrays.reader(f"{prefix}/{theirs}/layer_norm/{name}")
            weights[f"{prefix}/{ours}/norm/{name}"] = reader
    for theirs, ours in (("linear_0", "inner"), ("linear_1", "outer")):
        kernel = arrays.reader(f"{prefix}/ffn/{theirs}/weight")
        path = f"{prefix}/feed_forward/{ours}"
        weights[f"{path}/kernel"] = transposed(kernel)
        weights[f"{path}/bias"] = arrays.reader(f"{prefix}/ffn/{theirs}/bias")
    return weights


def _map_attention(
    arrays: BinaryArrays, theirs: str, ours: str, heads: int
) -> dict[str, ReadArray]:
    """Returns the projections, which are joined: all three, or keys and values.

    Heads may be wider than their scale says: padded with zeros. Here the scale follows
    from the width, so queries have the rest of it.
    """
    names = ("query", "key", "value")
    fused = f"{theirs}/linear_2/weight" not in arrays.names
    groups = [names] if fused else [names[:1], names[1:]]
    weights: dict[str, ReadArray] = {}
    for number, group in enumerate([*groups, ("output",)]):
        kernel = arrays.reader(f"{theirs}/linear_{number}/weight")
        bias_name = f"{theirs}/linear_{number}/bias"
        bias = arrays.reader(bias_name) if bias_name in arrays.names else None
        for part, name in enumerate(group):
            factor = 1.0
            if name == "query":
                width = arrays.shape(f"{theirs}/linear_0/weight")[0] // len(group)
                usual = (width / heads) ** -0.5
                factor = arrays.scalar(f"{theirs}/queries_scale", usual) / usual
            rows = _part(kernel, part, len(group), factor)
            weights[f"{ours}/{name}_kernel"] = transposed(rows)
            if bias is not None:
                path = f"{ours}/{name}_bias"
                weights[path] = _part(bias, part, len(group), factor)
    return weights


def _part(read: ReadArray, part: int, count: int, factor: float) -> ReadArray:
    """Returns the reader of one of several equal parts, times a factor."""

    def read_part() -> np.ndarray:
        rows = np.split(read(), count)[part]
        return rows if factor == 1.0 else rows * np.float32(factor)

    return read_part
