"""Type, vocabularies and settings of a Marian model that is written.

Sources as of `marian`.
"""

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from t2t_keras import __version__
from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import EOS_PIECE, PAD_PIECE, UNK_PIECE
from t2t_keras.interop.marian.names import CLASSIC, EPSILONS, NEW
from t2t_keras.interop.marian.vocabulary import vocabulary_text
from t2t_keras.model.transformer import Transformer
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.tokenizers import WordTokenizer
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary

WEIGHTS = "model.npz"
LENGTH = 1024
"""Positions of the new type's table; longer lines are cut."""

_OTHER_FORMATS = "Export it as a SavedModel, for Keras or for CTranslate2"

# Settings that every written model has; Marian has defaults for none of them.
_FIXED: Mapping[str, Any] = MappingProxyType(
    {
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-decoder-dim-ffn": 0,
        "transformer-ffn-depth": 2,
        "transformer-decoder-ffn-depth": 0,
        "transformer-tied-layers": [],
        "transformer-no-projection": False,
        "transformer-no-bias": False,
        "transformer-no-affine": False,
        "transformer-pool": False,
        "transformer-guided-alignment-layer": "last",
        "transformer-disable-position-embeddings": False,
        "transformer-attention-mask": "default",
        "transformer-alibi-shift": False,
        "transformer-alibi-trainable": False,
        "transformer-rnn-projection": False,
        "transformer-dim-aan": 2048,
        "transformer-aan-depth": 2,
        "transformer-aan-activation": "swish",
        "transformer-aan-nogate": False,
        "output-omit-bias": False,
        "input-types": [],
        "layer-normalization": False,
        "right-left": False,
        "skip": False,
        "separator-symbol": "[eos]",
        "lemma-dim-emb": 0,
        "lemma-dependency": "",
        "factors-combine": "sum",
        "factors-dim-emb": 0,
        "ulr": False,
        "ulr-dim-emb": 0,
        "ulr-trainable-transformation": False,
        "bert-train-type-embeddings": True,
        "bert-type-vocab-size": 2,
        "dim-rnn": 1024,
        "enc-type": "bidirectional",
        "enc-cell": "gru",
        "enc-cell-depth": 1,
        "dec-cell": "gru",
        "dec-cell-base-depth": 2,
        "dec-cell-high-depth": 1,
    }
)


def marian_type(model: Transformer) -> str:
    """Returns the type of Marian's model that computes what this one does.

    The classic type, if it is exact, as more programs read it. Its sinusoids and its
    epsilon are fixed, and its decoder has a fault with pre-norm (docs/convert.md). The
    new type has a table of positions, which holds any, and with them any epsilon.

    Raises:
        UserError: If Marian has no such model.
    """
    sizes = model.sizes
    _check_expressible(sizes)
    is_classic = (
        sizes["normalization"] == "post"
        and sizes["learned_positions"] is None
        and sizes["position_layout"] == "halves_t2t"
        and not sizes["first_position"]
        and sizes["decoder_start"] == "zero"
        and math.isclose(sizes["layer_norm_epsilon"], EPSILONS[CLASSIC])
    )
    return CLASSIC if is_classic else NEW


def _check_expressible(sizes: Mapping[str, Any]) -> None:
    """Raises `UserError` if Marian has no model that computes the same."""
    heads, width = sizes["num_heads"], sizes["d_model"]
    largest = max(sizes["d_k"], sizes["d_v"])
    for is_missing, what in (
        (
            sizes["activation"] not in ("relu", "swish"),
            f"--activation={sizes['activation']}: it has relu and swish, and its gelu "
            "is x sigmoid(1.702 x)",
        ),
        (
            sizes["encoder_neighborhood"],
            "encoder whose attention is restricted, as by "
            f"--encoder_neighborhood={sizes['encoder_neighborhood']}",
        ),
        (
            not sizes["source_eos"],
            "encoder that does not read the end of a source (--nosource_eos)",
        ),
        (
            width % heads,
            f"--d_model={width} that is no multiple of --num_heads={heads}",
        ),
        (
            largest > width // heads,
            f"heads of size {largest} (--d_k, --d_v) that are larger than d_model / "
            f"num_heads, {width // heads}",
        ),
    ):
        if is_missing:
            raise UserError(f"Marian has no {what}. {_OTHER_FORMATS}.")


class VocabularyFiles(NamedTuple):
    """Vocabularies of a written model.

    Attributes:
        names: File of the source's and of the target's ids.
        contents: Content of each file, by name.
        source: Our id of each source id of Marian's.
        target: The same of targets.
    """

    names: tuple[str, str]
    contents: Mapping[str, bytes]
    source: list[int]
    target: list[int]


def vocabulary_files(
    vocabulary: Vocabulary, *, share_embeddings: bool
) -> VocabularyFiles:
    """Returns the vocabularies of a model.

    A SentencePiece model is Marian's vocabulary as it is, which then splits text
    itself. Other ids are lists, as in OPUS-MT, and SentencePiece models beside them
    split the text before.

    Args:
        vocabulary: The model's vocabulary.
        share_embeddings: Whether both sides have one embedding, and so one list.

    Raises:
        UserError: If Marian cannot have such a vocabulary.
    """
    size = vocabulary.size
    if not isinstance(vocabulary, PieceVocabulary):
        name, ids = "vocab.spm", list(range(size))
        return VocabularyFiles((name, name), {name: vocabulary.to_bytes()}, ids, ids)
    files = vocabulary.tokenizer_files()
    kind = vocabulary.tokenizer_kind
    if sorted(files) != ["source.spm", "target.spm"] and kind != WordTokenizer.kind:
        raise UserError(
            f"Marian has no vocabulary of kind {kind}, only SentencePiece and words. "
            f"{_OTHER_FORMATS}."
        )
    source_size = vocabulary.source.size
    pieces = vocabulary.source.pieces(range(source_size))
    target_pieces = vocabulary.pieces(range(size))
    # A source may lack the last pieces, such as one for the decoder's start.
    if share_embeddings or pieces == target_pieces:
        order = _order(size)
        contents = {"vocab.yml": _list(target_pieces, order), **files}
        return VocabularyFiles(("vocab.yml", "vocab.yml"), contents, order, order)
    source, target = _order(source_size), _order(size)
    contents = {
        "source.yml": _list(pieces, source),
        "target.yml": _list(target_pieces, target),
        **files,
    }
    return VocabularyFiles(("source.yml", "target.yml"), contents, source, target)


def _order(size: int) -> list[int]:
    """Returns our ids in the order of OPUS-MT's: padding last."""
    return [EOS_ID, UNK_ID, *range(UNK_ID + 1, size), PAD_ID]


def _list(pieces: list[str], order: list[int]) -> bytes:
    special = {PAD_ID: PAD_PIECE, EOS_ID: EOS_PIECE, UNK_ID: UNK_PIECE}
    named = [special.get(own_id, pieces[own_id]) for own_id in order]
    return vocabulary_text(named).encode()


def yaml_text(settings: Mapping[str, Any]) -> str:
    """Returns settings as YAML, one a line."""
    # A value of JSON is one of YAML.
    return "\n".join(f"{name}: {json.dumps(each)}" for name, each in settings.items())


def model_settings(
    model: Transformer, kind: str, vocabularies: VocabularyFiles
) -> dict[str, Any]:
    """Returns the settings in the weights' file: all that Marian writes there."""
    sizes = model.sizes
    is_pre = sizes["normalization"] == "pre"
    shared, tied = sizes["share_embeddings"], sizes["tie_output"]
    return {
        "type": kind,
        "version": f"t2t_keras {__version__}",
        "dim-vocabs": [len(vocabularies.source), len(vocabularies.target)],
        "dim-emb": sizes["d_model"],
        "enc-depth": sizes["encoder_layers"],
        "dec-depth": sizes["decoder_layers"],
        "tied-embeddings": tied and not shared,
        "tied-embeddings-src": shared and not tied,
        "tied-embeddings-all": shared and tied,
        "transformer-heads": sizes["num_heads"],
        "transformer-dim-ffn": sizes["d_ff"],
        "transformer-ffn-activation": sizes["activation"],
        "transformer-preprocess": "n" if is_pre else "",
        "transformer-postprocess": "da" if is_pre else "dan",
        "transformer-postprocess-top": "n" if is_pre else "",
        "transformer-train-position-embeddings": kind == NEW,
        # The number of positions, which a command line's would replace.
        **({"max-length": length(model)} if kind == NEW else {}),
        **_FIXED,
    }


def decoder_settings(
    vocabularies: VocabularyFiles, decoding: DecodingConfig
) -> dict[str, Any]:
    """Returns the settings of the search, in decoder.yml."""
    return {
        "relative-paths": True,
        "models": [WEIGHTS],
        "vocabs": list(vocabularies.names),
        "beam-size": decoding.beam_size,
        "normalize": 0 if decoding.length_penalty == "none" else decoding.alpha,
        "word-penalty": 0,
        "allow-unk": not decoding.suppress_unknown,
        "max-length": LENGTH,
        # Otherwise Marian leaves out a line that is longer.
        "max-length-crop": True,
        "mini-batch": 16,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
    }


def find_search_differences(decoding: DecodingConfig) -> list[str]:
    """Returns what Marian's search does otherwise, a sentence each."""
    found = []
    if decoding.length_penalty == "gnmt":
        found.append(
            "Marian has no GNMT length penalty: it divides by "
            f"length^{decoding.alpha:g}"
        )
    for name, is_set in (
        ("min_length", decoding.min_length),
        ("no_repeat_ngram", decoding.no_repeat_ngram),
        ("renormalize", decoding.renormalize),
    ):
        if is_set:
            found.append(f"Marian has no counterpart of --{name}, which is left out")
    return found


def length(model: Transformer) -> int:
    """Returns the number of positions in a table of the new type."""
    return max(LENGTH, model.max_positions or 0)
