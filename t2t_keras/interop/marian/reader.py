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

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import NpzArrays
from t2t_keras.interop.imported_model import (
    EOS_PIECE,
    PAD_PIECE,
    UNK_PIECE,
    IdMap,
    ImportedModel,
    ReadArray,
    ReadWeight,
    check_allowed,
    check_rows,
    embedding_options,
    transposed,
    without_dropout,
)
from t2t_keras.interop.marian.files import (
    MODEL_SETTINGS,
    ModelFiles,
    find_files,
    find_weights,
    read_model_settings,
)
from t2t_keras.interop.marian.names import (
    CLASSIC,
    EPSILONS,
    NEW,
    POSITIONS,
    last_norm,
    stack_names,
)
from t2t_keras.interop.marian.vocabulary import read_vocabulary
from t2t_keras.interop.sentencepiece_pair import open_piece_vocabulary
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig

# Settings that must have one of some values, Marian's default first, and what a model
# with another value is.
_REQUIRED: Mapping[str, tuple[Sequence[Any], str]] = MappingProxyType(
    {
        "type": ((CLASSIC, NEW), "another architecture"),
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
# Of a sum in float32, as a fraction of its largest number.
_ROUNDING = 1e-6
# Steps before and after a sub-layer, and after a stack: add, norm; dropout aside.
_POST_NORM = ("", "an", "")
_PRE_NORM = ("n", "a", "n")
# First release whose training normalizes keys and values. Its decoder does not, in
# steps after the first: translations of its own are not those that it was trained for.
_NORMALIZES_KEYS = (1, 11)


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
    arrays = NpzArrays(find_weights(path))
    settings = read_model_settings(arrays)
    files = find_files(path, arrays.path, settings)
    _check_architecture(files.weights, settings)
    layout = _read_layout(arrays, settings)
    target, source = _read_vocabularies(files, arrays)
    joint = target.pieces == source.pieces
    start = _find_start(arrays, target) if layout.learned_positions else "zero"
    vocabulary, spm_files = open_piece_vocabulary(
        files.weights.parent, source, target, _built_in_models(files)
    )
    weights = _map_weights(arrays, layout, target, source)
    arrays.check_all_used()
    decoder = [files.decoder] if files.decoder else []
    return ImportedModel(
        model=_model_config(settings, layout, weights, start),
        decoding=_decoding_config(files.search),
        vocabulary=vocabulary,
        weights=weights,
        original_ids=target.original_ids,
        source_original_ids=None if joint else source.original_ids,
        files=[files.weights, *dict.fromkeys(files.vocabularies), *decoder, *spm_files],
        settings={"model": settings, "decoder": dict(files.search)},
        warnings=_warnings(files.search),
    )


def _check_architecture(path: Path, settings: Mapping[str, Any]) -> None:
    """Raises `UserError` if this project has no such model."""
    check_allowed(path, settings, _REQUIRED)
    for name in ("enc-depth", "dec-depth", "transformer-heads", "dim-emb"):
        if not isinstance(settings.get(name), int):
            raise UserError(
                f"{MODEL_SETTINGS} in {path} must have a number {name}. "
                f"Received: {settings.get(name)}"
            )


class _Layout(NamedTuple):
    """What the names of a model's arrays, and the numbers in them, depend on.

    Attributes:
        kind: Type of the model.
        depths: Number of layers of each stack.
        width: D.
        pre_norm: Whether layers are normalized before their sub-layers.
        activation: That of the feed-forward networks.
        learned_positions: Number of positions in the tables; None with sinusoids.
    """

    kind: str
    depths: Mapping[str, int]
    width: int
    pre_norm: bool
    activation: str
    learned_positions: int | None


def _read_layout(arrays: NpzArrays, settings: Mapping[str, Any]) -> _Layout:
    kind = settings.get("type", CLASSIC)
    learned = settings.get("transformer-train-position-embeddings", False)
    if learned and kind == CLASSIC:
        raise UserError(
            f"{arrays.path} cannot be imported: it has learned positions, which a "
            f"decoder of Marian's type {CLASSIC} ignores when it translates. Those of "
            f"type {NEW} can be imported."
        )
    return _Layout(
        kind,
        {"encoder": settings["enc-depth"], "decoder": settings["dec-depth"]},
        settings["dim-emb"],
        _is_pre_norm(arrays.path, settings),
        settings.get("transformer-ffn-activation", "swish"),
        arrays.shape(POSITIONS["encoder"])[0] if learned else None,
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
    is_old = (
        settings.get("type", CLASSIC) == CLASSIC and tuple(numbers) < _NORMALIZES_KEYS
    )
    if steps == _PRE_NORM and is_old:
        raise UserError(
            f"{path} is a pre-norm model of Marian {settings.get('version')}, which "
            "did not normalize the keys and values of self-attention. Only those of "
            "release 1.11 and later can be imported."
        )
    return steps == _PRE_NORM


def _read_vocabularies(files: ModelFiles, arrays: NpzArrays) -> tuple[IdMap, IdMap]:
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
        missing = {EOS_PIECE, UNK_PIECE} - set(pieces)
        if missing:
            raise UserError(f"The vocabulary {path} must have {sorted(missing)[0]}.")
        # Marian has no padding, but exports of other programs have a row for it.
        pad = pieces.index(PAD_PIECE) if PAD_PIECE in pieces else None
        eos, unk = pieces.index(EOS_PIECE), pieces.index(UNK_PIECE)
        maps.append(IdMap.from_pieces(pieces, pad=pad, eos=eos, unk=unk))
    source, target = maps
    return target, source


def _built_in_models(files: ModelFiles) -> list[Path] | None:
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
    settings: Mapping[str, Any],
    layout: _Layout,
    weights: Mapping[str, ReadWeight],
    start: str,
) -> ModelConfig:
    learned = layout.learned_positions
    return ModelConfig(
        encoder_layers=layout.depths["encoder"],
        decoder_layers=layout.depths["decoder"],
        num_layers=layout.depths["encoder"],
        d_model=layout.width,
        d_ff=int(settings.get("transformer-dim-ffn", 2048)),
        num_heads=settings["transformer-heads"],
        normalization="pre" if layout.pre_norm else "post",
        layer_norm_epsilon=EPSILONS[layout.kind],
        activation=layout.activation,
        attention_bias=True,
        **embedding_options(weights),
        learned_positions=learned,
        position_layout="interleaved" if learned else "halves_t2t",
        decoder_start=start,
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
    arrays: NpzArrays, layout: _Layout, target: IdMap, source: IdMap
) -> dict[str, ReadWeight]:
    """Returns our weights as functions that read Marian's arrays."""
    shared = "Wemb" in arrays.names
    table = "Wemb" if shared else "decoder_Wemb"
    # A type that learns positions does not multiply embeddings by the root of their
    # width, as is done here.
    scale = layout.width**-0.5 if layout.learned_positions else 1.0
    weights: dict[str, ReadWeight] = {
        "embedding/embeddings": target.rows(_scaled(arrays.reader(table), scale))
    }
    if not shared:
        rows = source.rows(_scaled(arrays.reader("encoder_Wemb"), scale))
        weights["source_embedding/embeddings"] = rows
    output = "decoder_ff_logit_out"
    if f"{output}_W" in arrays.names:
        matrix = arrays.reader(f"{output}_W")
        weights["embedding/output_matrix"] = target.rows(transposed(matrix))
    elif f"{output}_Wt" in arrays.names:
        matrix = arrays.reader(f"{output}_Wt")
        weights["embedding/output_matrix"] = target.rows(matrix)
    else:
        scale = 1 / scale
    bias = f"{output}_b"
    has_bias = bias in arrays.names
    weights |= target.output_bias(arrays.vector(bias) if has_bias else None)
    for stack, depth in layout.depths.items():
        for name in stack_names(
            layout.kind,
            stack,
            depth,
            pre_norm=layout.pre_norm,
            activation=layout.activation,
        ):
            read = arrays.reader if name.is_matrix else arrays.vector
            weights[name.ours] = read(name.theirs)
    if "embedding/output_matrix" not in weights:
        # The table is the output's matrix too, so what it is multiplied by is scaled.
        for part in ("gamma", "beta"):
            path = f"{last_norm(layout.depths['decoder'], layout.pre_norm)}/{part}"
            weights[path] = _scaled(weights[path], scale)
    if layout.learned_positions:
        weights["positions/positions"] = arrays.reader(POSITIONS["encoder"])
    return weights


def _scaled(read: ReadWeight, factor: float) -> ReadArray:
    return lambda: read()[:] * np.float32(factor)


def _find_start(arrays: NpzArrays, target: IdMap) -> str:
    """Returns the setting `decoder_start` of a model that learns positions.

    Encoder and decoder have a table each, and a model here has one for both. They may
    differ in the first row, by the embedding of a piece from which the decoder starts,
    as exports of this project have it.

    Raises:
        UserError: If they differ in something else.
    """
    encoder, decoder = (arrays.reader(name)() for name in POSITIONS.values())
    difference = decoder - encoder if decoder.shape == encoder.shape else None
    if difference is not None and not difference.any():
        return "zero"
    table = "Wemb" if "Wemb" in arrays.names else "decoder_Wemb"
    rows_VD = arrays.reader(table)()
    if difference is not None and not difference[1:].any():
        errors_V = np.abs(rows_VD - difference[0]).max(axis=1)
        nearest = int(errors_V.argmin())
        if errors_V[nearest] <= _ROUNDING * np.abs(decoder[0]).max():
            return target.pieces[target.original_ids.index(nearest)]
    raise UserError(
        f"{arrays.path} cannot be imported: it has other learned positions in the "
        "encoder than in the decoder. A model here has one table for both."
    )
