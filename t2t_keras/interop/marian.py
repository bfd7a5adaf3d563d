"""Reader of Marian's models, such as those of OPUS-MT.

Sources: marian-dev, src/models/transformer.h, src/layers/generic.h, src/data and
src/translator; measured against pymarian (docs/convert.md).

Shapes: V vocabulary, D model width.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import NpzArrays
from t2t_keras.interop.imported_model import (
    IdMap,
    ImportedModel,
    ReadArray,
    ReadWeight,
    check_allowed,
    check_rows,
    embedding_options,
    parse_yaml,
    read_yaml,
    transposed,
    without_dropout,
)
from t2t_keras.interop.marian_vocabulary import read_vocabulary
from t2t_keras.interop.sentencepiece_pair import open_piece_vocabulary
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig

_SETTINGS = "special:model.yml"
_EOS, _UNK = "</s>", "<unk>"
_PROJECTIONS = ("query", "key", "value", "output")
# Settings that must have one of some values, Marian's default first, and what a model
# with another value is.
_REQUIRED: Mapping[str, tuple[Sequence[Any], str]] = MappingProxyType(
    {
        "type": (("transformer",), "another architecture"),
        "transformer-decoder-autoreg": (
            ("self-attention",),
            "a decoder without self-attention (SSRU, AAN or another RNN)",
        ),
        "transformer-tied-layers": (([],), "layers that share weights"),
        "transformer-pool": ((False,), "pooling in place of cross-attention"),
        "transformer-no-projection": (
            (False,),
            "attention without an output projection",
        ),
        "transformer-train-position-embeddings": ((False,), "learned positions"),
        "transformer-no-bias": ((False,), "projections without biases"),
        "transformer-no-affine": ((False,), "normalization without scale and bias"),
        "input-types": (([],), "several inputs"),
        "transformer-disable-position-embeddings": ((False,), "no positions"),
        "transformer-postprocess-emb": (("d", ""), "a layer after the embedding"),
        "transformer-attention-mask": (("default",), "another attention mask"),
        "transformer-ffn-depth": ((2,), "feed-forward networks of another depth"),
        "transformer-decoder-ffn-depth": (
            (0, 2),
            "feed-forward networks of another depth",
        ),
        "transformer-decoder-dim-ffn": (
            (0,),
            "another feed-forward width in the decoder",
        ),
        "lemma-dim-emb": ((0,), "factors"),
        "factors-dim-emb": ((0,), "factors"),
        "ulr": ((False,), "universal language representations"),
        "right-left": ((False,), "translation from right to left"),
        "transformer-ffn-activation": (
            ("swish", "relu"),
            "another activation (Marian's gelu is x sigmoid(1.702 x))",
        ),
    }
)
# Steps before and after a sub-layer, and after a stack: add, norm; dropout aside.
_POST_NORM = ("", "an", "")
_PRE_NORM = ("n", "a", "n")
# First release whose training normalizes keys and values. Its decoder does not, in
# steps after the first: translations of its own are not those that it was trained for.
_NORMALIZES_KEYS = (1, 11)


class _Files(NamedTuple):
    """Files of a model: weights, two vocabularies, and settings of the search."""

    weights: Path
    vocabularies: tuple[Path, Path]
    decoder: Path | None
    search: Mapping[str, Any]


def read_marian(path: Path) -> ImportedModel:
    """Returns a Marian model.

    Args:
        path: A folder with decoder.yml, as OPUS-MT has it, or the weights' `.npz`.
            The folder may have source.spm and target.spm, which then split lines into
            pieces; without them, a line is words between spaces.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or
            this project has no such architecture.
    """
    arrays = NpzArrays(_find_weights(path))
    settings = _read_settings(arrays)
    files = _find_files(path, arrays.path, settings)
    _check_architecture(files.weights, settings)
    pre_norm = _is_pre_norm(files.weights, settings)
    target, source = _read_vocabularies(files, arrays)
    vocabulary, spm_files = open_piece_vocabulary(
        files.weights.parent, source, target, _built_in_models(files)
    )
    weights = _map_weights(arrays, settings, pre_norm, target, source)
    arrays.check_all_used()
    joint = target.pieces == source.pieces
    decoder = [files.decoder] if files.decoder else []
    return ImportedModel(
        model=_model_config(settings, pre_norm, weights),
        decoding=_decoding_config(files.search),
        vocabulary=vocabulary,
        weights=weights,
        original_ids=target.original_ids,
        source_original_ids=None if joint else source.original_ids,
        files=[files.weights, *dict.fromkeys(files.vocabularies), *decoder, *spm_files],
        settings={"model": settings, "decoder": dict(files.search)},
        warnings=_warnings(files.search),
    )


def _find_weights(path: Path) -> Path:
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


def _read_settings(arrays: NpzArrays) -> dict[str, Any]:
    """Returns the settings that Marian embeds in its models."""
    if _SETTINGS not in arrays.names:
        raise UserError(
            f"{arrays.path} has no array {_SETTINGS}, the settings that Marian embeds. "
            "It is not a model of Marian."
        )
    content = arrays.read(_SETTINGS).tobytes().rstrip(b"\0")
    try:
        settings = parse_yaml(content)
    except ValueError as error:
        raise UserError(f"{_SETTINGS} in {arrays.path} is damaged: {error}") from error
    if not isinstance(settings, dict):
        raise UserError(f"{_SETTINGS} in {arrays.path} has no settings.")
    return settings


def _find_files(path: Path, weights: Path, settings: Mapping[str, Any]) -> _Files:
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
    return _Files(weights, vocabularies, decoder, search)


def _check_architecture(path: Path, settings: Mapping[str, Any]) -> None:
    """Raises `UserError` if this project has no such model."""
    check_allowed(path, settings, _REQUIRED)
    for name in ("enc-depth", "dec-depth", "transformer-heads", "dim-emb"):
        if not isinstance(settings.get(name), int):
            raise UserError(
                f"{_SETTINGS} in {path} must have a number {name}. "
                f"Received: {settings.get(name)}"
            )


def _is_pre_norm(path: Path, settings: Mapping[str, Any]) -> bool:
    """Returns whether layers are normalized before their sub-layers.

    Raises:
        UserError: If they are neither post-norm nor pre-norm, or pre-norm of a release
            before 1.11, which normalized queries alone.
    """
    received = tuple(
        settings.get(f"transformer-{name}", "")
        for name in ("preprocess", "postprocess", "postprocess-top")
    )
    steps = without_dropout(received)
    if steps not in (_POST_NORM, _PRE_NORM):
        raise UserError(
            f"{path} has the steps {received} before and after its layers. Only "
            f"post-norm {_POST_NORM} and pre-norm {_PRE_NORM} can be imported, with or "
            "without d, dropout."
        )
    version = re.match(r"v(\d+)\.(\d+)", str(settings.get("version", "")))
    numbers = [int(number) for number in version.groups()] if version else [0, 0]
    if steps == _PRE_NORM and tuple(numbers) < _NORMALIZES_KEYS:
        raise UserError(
            f"{path} is a pre-norm model of Marian {settings.get('version')}, which "
            "did not normalize the keys and values of self-attention. Only those of "
            "release 1.11 and later can be imported."
        )
    return steps == _PRE_NORM


def _read_vocabularies(files: _Files, arrays: NpzArrays) -> tuple[IdMap, IdMap]:
    """Returns the ids of target and source."""
    for path in files.vocabularies:
        if path.suffix == ".fsv":
            raise UserError(f"{path} is a vocabulary of factors, which has no import.")
    maps = []
    for side, path in zip(("encoder", "decoder"), files.vocabularies, strict=True):
        pieces = _read_pieces(path)
        table = "Wemb" if "Wemb" in arrays.names else f"{side}_Wemb"
        rows = arrays.shape(table)[0]
        check_rows(path, pieces, rows)
        missing = {_EOS, _UNK} - set(pieces)
        if missing:
            raise UserError(f"The vocabulary {path} must have {sorted(missing)[0]}.")
        eos, unk = pieces.index(_EOS), pieces.index(_UNK)
        maps.append(IdMap.from_pieces(pieces, pad=None, eos=eos, unk=unk))
    source, target = maps
    return target, source


def _built_in_models(files: _Files) -> list[Path] | None:
    """Returns the vocabularies if they are SentencePiece models; None if not."""
    built_in = [p for p in files.vocabularies if p.suffix == ".spm"]
    if len(built_in) == 1:
        raise UserError(
            f"{files.weights} has the vocabularies {files.vocabularies[0].name} and "
            f"{files.vocabularies[1].name}. Only two of one kind can be imported."
        )
    return built_in or None


def _read_pieces(path: Path) -> list[str]:
    if path.suffix != ".spm":
        return read_vocabulary(path)
    from t2t_keras.interop.sentencepiece_pair import read_processor

    processor = read_processor(path)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def _model_config(
    settings: Mapping[str, Any], pre_norm: bool, weights: Mapping[str, ReadWeight]
) -> ModelConfig:
    return ModelConfig(
        encoder_layers=settings["enc-depth"],
        decoder_layers=settings["dec-depth"],
        num_layers=settings["enc-depth"],
        d_model=settings["dim-emb"],
        d_ff=int(settings.get("transformer-dim-ffn", 2048)),
        num_heads=settings["transformer-heads"],
        normalization="pre" if pre_norm else "post",
        activation=settings.get("transformer-ffn-activation", "swish"),
        attention_bias=True,
        **embedding_options(weights),
        position_layout="halves_t2t",
    )


def _decoding_config(search: Mapping[str, Any]) -> DecodingConfig:
    """Returns the settings of the search in decoder.yml.

    Marian divides the log probability by length^normalize, the end of the sentence
    included.
    """
    alpha = float(search.get("normalize", 0.0))
    return DecodingConfig(
        beam_size=int(search.get("beam-size", 12)),
        alpha=alpha if alpha else 0.6,
        length_penalty="power" if alpha else "none",
        suppress_unknown=not search.get("allow-unk", False),
    )


def _warnings(search: Mapping[str, Any]) -> list[str]:
    penalty = float(search.get("word-penalty", 0.0))
    if not penalty:
        return []
    return [f"word-penalty: {penalty:g} of the source is ignored; there is none here"]


def _map_weights(
    arrays: NpzArrays,
    settings: Mapping[str, Any],
    pre_norm: bool,
    target: IdMap,
    source: IdMap,
) -> dict[str, ReadWeight]:
    """Returns our weights as functions that read Marian's arrays."""
    shared = "Wemb" in arrays.names
    table = "Wemb" if shared else "decoder_Wemb"
    weights: dict[str, ReadWeight] = {
        "embedding/embeddings": target.rows(arrays.reader(table))
    }
    if not shared:
        rows = source.rows(arrays.reader("encoder_Wemb"))
        weights["source_embedding/embeddings"] = rows
    output = "decoder_ff_logit_out"
    if f"{output}_W" in arrays.names:
        matrix = arrays.reader(f"{output}_W")
        weights["embedding/output_matrix"] = target.rows(transposed(matrix))
    elif f"{output}_Wt" in arrays.names:
        matrix = arrays.reader(f"{output}_Wt")
        weights["embedding/output_matrix"] = target.rows(matrix)
    bias = f"{output}_b"
    has_bias = bias in arrays.names
    weights |= target.output_bias(arrays.vector(bias) if has_bias else None)
    for stack, depth in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
        for layer in range(settings[depth]):
            weights |= _map_layer(arrays, stack, layer, "_pre" if pre_norm else "")
        if pre_norm:
            for name, part in (("gamma", "scale"), ("beta", "bias")):
                # The step after the stack has the names of a step after a layer.
                weights[f"{stack}/norm/{name}"] = arrays.vector(
                    f"{stack}_top_ln_{part}"
                )
    return weights


def _map_layer(
    arrays: NpzArrays, stack: str, layer: int, suffix: str
) -> dict[str, ReadArray]:
    theirs, ours = f"{stack}_l{layer + 1}", f"{stack}/layer_{layer}"
    parts = [("self", "attention", "attention_residual")]
    if stack == "decoder":
        parts.append(("context", "memory_attention", "memory_residual"))
    weights: dict[str, ReadArray] = {}
    for name, attention, residual in parts:
        for letter, projection in zip("qkvo", _PROJECTIONS, strict=True):
            path = f"{ours}/{attention}/{projection}"
            weights[f"{path}_kernel"] = arrays.reader(f"{theirs}_{name}_W{letter}")
            weights[f"{path}_bias"] = arrays.vector(f"{theirs}_{name}_b{letter}")
        weights |= _map_norm(
            arrays, f"{theirs}_{name}_Wo_ln", f"{ours}/{residual}", suffix
        )
    for number, name in (("1", "inner"), ("2", "outer")):
        path = f"{ours}/feed_forward/{name}"
        weights[f"{path}/kernel"] = arrays.reader(f"{theirs}_ffn_W{number}")
        weights[f"{path}/bias"] = arrays.vector(f"{theirs}_ffn_b{number}")
    residual = f"{ours}/feed_forward_residual"
    return weights | _map_norm(arrays, f"{theirs}_ffn_ffn_ln", residual, suffix)


def _map_norm(
    arrays: NpzArrays, theirs: str, ours: str, suffix: str
) -> dict[str, ReadArray]:
    return {
        f"{ours}/norm/gamma": arrays.vector(f"{theirs}_scale{suffix}"),
        f"{ours}/norm/beta": arrays.vector(f"{theirs}_bias{suffix}"),
    }
