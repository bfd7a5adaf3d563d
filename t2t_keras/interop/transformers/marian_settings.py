"""Ids, vocabularies and settings of a MarianMT model that is written.

Source: transformers 5, models/marian/configuration_marian.py, tokenization_marian.py
and generation/configuration_utils.py.

Shapes: V vocabulary, D model width.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from t2t_keras.interop.imported_model import (
    EOS_PIECE,
    PAD_PIECE,
    UNK_PIECE,
    new_piece,
)
from t2t_keras.interop.transformers.names import STACKS
from t2t_keras.model.transformer import Transformer
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary

_MAX_POSITIONS = 1024
_MAX_LENGTH = 512


class Ids(NamedTuple):
    """Ids of the written model.

    Padding has a vector of its own here, which gives it a logit, and stands for the
    zero vector in the input. There it has one row for both. So its row becomes that of
    a new piece, which no text has, and padding gets a zero row that is never likely.

    Attributes:
        source: Our id of each source id of theirs.
        target: The same of targets.
        blank: Our number of the new piece, V; None where the rows are the same anyway.
    """

    source: Sequence[int]
    target: Sequence[int]
    blank: int | None


def number_ids(model: Transformer, vocabulary: Vocabulary) -> Ids:
    """Returns the ids of the written model.

    With one vocabulary they are as in OPUS-MT: end of sentence, unknown, other pieces,
    padding last, where the converter of CTranslate2 expects it. Padding must have one
    id in both vocabularies, so two keep our order.
    """
    sizes, size = model.sizes, vocabulary.size
    padding_VD = model.embedding.embeddings[PAD_ID]
    needs_blank = (
        sizes["tie_output"]
        and sizes["decoder_start"] == "zero"
        and bool(np.any(ops.convert_to_numpy(padding_VD)))
    )
    blank = size if needs_blank else None
    target = range(size + needs_blank)
    if not is_shared(model):
        return Ids(range(vocabulary.source.size), target, blank)
    order = [*target[1:], PAD_ID]
    return Ids(order, order, blank)


def is_shared(model: Transformer) -> bool:
    """Returns whether one matrix is both embeddings and the output projection."""
    return model.sizes["share_embeddings"] and model.sizes["tie_output"]


def model_config(model: Transformer, ids: Ids) -> dict[str, Any]:
    """Returns the content of config.json."""
    sizes = model.sizes
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": len(ids.source),
        "decoder_vocab_size": len(ids.target),
        "share_encoder_decoder_embeddings": is_shared(model),
        "tie_word_embeddings": sizes["tie_output"],
        "d_model": sizes["d_model"],
        **{f"{stack}_layers": sizes[f"{stack}_layers"] for stack in STACKS},
        **{f"{stack}_ffn_dim": sizes["d_ff"] for stack in STACKS},
        **{f"{stack}_attention_heads": sizes["num_heads"] for stack in STACKS},
        "activation_function": sizes["activation"],
        "dropout": sizes["dropout_rate"],
        "attention_dropout": sizes["attention_dropout_rate"],
        "activation_dropout": 0.0,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "max_position_embeddings": _MAX_POSITIONS,
        **_special_ids(model, ids),
        "dtype": "float32",
    }


def _special_ids(model: Transformer, ids: Ids) -> dict[str, int]:
    start = model.sizes["decoder_start"]
    return {
        "pad_token_id": ids.target.index(PAD_ID),
        "eos_token_id": ids.target.index(EOS_ID),
        "decoder_start_token_id": ids.target.index(
            PAD_ID if start == "zero" else start
        ),
        # As here, where a translation of the maximum length is ended.
        "forced_eos_token_id": ids.target.index(EOS_ID),
    }


def generation_config(
    model: Transformer, ids: Ids, decoding: DecodingConfig
) -> dict[str, Any]:
    """Returns the content of generation_config.json, from settings of the search."""
    suppressed = [PAD_ID, *([] if ids.blank is None else [ids.blank])]
    if decoding.suppress_unknown:
        suppressed.append(UNK_ID)
    return {
        **_special_ids(model, ids),
        "num_beams": decoding.beam_size,
        "length_penalty": 0.0 if decoding.length_penalty == "none" else decoding.alpha,
        # Until nothing better is possible, as here.
        "early_stopping": "never",
        "bad_words_ids": [[ids.target.index(i)] for i in suppressed],
        "renormalize_logits": decoding.renormalize,
        # There the first input counts.
        "min_length": decoding.min_length + 1 if decoding.min_length else 0,
        "no_repeat_ngram_size": decoding.no_repeat_ngram,
        "max_length": _MAX_LENGTH,
    }


def tokenizer_config(languages: tuple[str, str], is_shared: bool) -> dict[str, Any]:
    """Returns the content of tokenizer_config.json, for one vocabulary or for two."""
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": not is_shared,
        "model_max_length": _MAX_LENGTH,
        "unk_token": UNK_PIECE,
        "eos_token": EOS_PIECE,
        "pad_token": PAD_PIECE,
    }


def vocabularies(vocabulary: Vocabulary, ids: Ids) -> dict[str, dict[str, int]]:
    """Returns vocab.json, and target_vocab.json if there are two."""
    pieces = vocabulary.pieces(range(vocabulary.size))
    special = [PAD_PIECE, EOS_PIECE, UNK_PIECE]  # which MarianTokenizer must have
    pieces[: len(special)] = special
    if ids.blank is not None:
        pieces.append(new_piece("blank", pieces))
    target = {pieces[own_id]: i for i, own_id in enumerate(ids.target)}
    if ids.source is ids.target:
        return {"vocab.json": target}
    source = vocabulary.source.pieces(range(vocabulary.source.size))
    source[: len(special)] = special
    return {
        "vocab.json": {source[own_id]: i for i, own_id in enumerate(ids.source)},
        "target_vocab.json": target,
    }
