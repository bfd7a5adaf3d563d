"""Files of M2M100 and NLLB models, written from their description in tests alone."""

import json
from pathlib import Path
from types import MappingProxyType

import numpy as np
import safetensors.numpy

from t2t_keras.text.sentencepiece_models import _encode_piece
from tests.interop.small_models import V
from tests.interop.transformers_files import layer_arrays, sizes_of
from tests.reference.weights_np import Options, Weights

OPTIONS = Options(
    normalization="pre",
    layer_norm_epsilon=1e-5,
    position_layout="halves_t2t",
    first_position=2,
    decoder_start=1,
    attention_bias=True,
)
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
WORDS = ("\u2581", "a", "b", "ab", "\u2581a", "\u2581ab")
# Of the setting language_codes: wmt21, in the order of their ids.
WMT21 = ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")
NLLB = ("deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant")
# Our id of each of theirs: only the special ones have others.
ORDER = (3, 0, 1, 2, *range(4, V))
TAGS = MappingProxyType({"de": V - 2, "en": V - 9})


def arrays_of(weights: Weights) -> dict[str, np.ndarray]:
    """Returns their arrays of the reference's weights."""
    arrays = {"model.shared.weight": weights.embedding[[*ORDER]]}
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(weights, f"{stack}_layers")):
            arrays |= layer_arrays(f"model.{stack}.layers.{number}", layer)
        norm = getattr(weights, f"{stack}_norm")
        arrays[f"model.{stack}.layer_norm.weight"] = norm.gain
        arrays[f"model.{stack}.layer_norm.bias"] = norm.bias
    # safetensors writes the memory of an array, whatever its order.
    return {name: np.ascontiguousarray(value, "f") for name, value in arrays.items()}


def config_of(weights: Weights) -> dict[str, object]:
    return {
        "model_type": "m2m_100",
        **sizes_of(weights),
        "eos_token_id": 2,
        "pad_token_id": 1,
        "decoder_start_token_id": 2,
        "num_beams": 5,
        "max_length": 200,
    }


def write_spm(path: Path) -> None:
    """Writes a unigram model of `WORDS`."""
    special = (("<unk>", 2), ("<s>", 3), ("</s>", 3))
    pieces = [_encode_piece(piece, 0.0, kind) for piece, kind in special]
    pieces += [_encode_piece(word, -1.0 - i / 8) for i, word in enumerate(WORDS)]
    path.write_bytes(b"".join(pieces))


def write_m2m100(folder: Path, weights: Weights, **tokenizer: object) -> Path:
    """Writes a folder of M2M100, with settings of its tokenizer."""
    _write_model(folder, weights)
    write_spm(folder / "sentencepiece.bpe.model")
    ids = {piece: i for i, piece in enumerate([*SPECIAL, *WORDS])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    settings = {"language_codes": "wmt21", **tokenizer}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def write_nllb(
    folder: Path, weights: Weights, *, adds: bool = True, **tokenizer: object
) -> Path:
    """Writes a folder of NLLB as transformers 5 does: tokenizer.json alone.

    Languages are added tokens or, without `adds`, among the pieces as well.
    """
    _write_model(folder, weights)
    pieces = [*SPECIAL, *WORDS]
    if not adds:
        pieces += [*NLLB, "<mask>"]
    added = [*zip(range(4), SPECIAL, strict=True)]
    if adds:
        added += enumerate([*NLLB, "<mask>"], len(pieces))
    merges = (("a", "b"), ("\u2581", "a"), ("\u2581", "ab"), ("\u2581a", "b"))
    content = {
        "added_tokens": [{"id": i, "content": piece} for i, piece in added],
        "normalizer": None,
        "model": {
            "type": "BPE",
            "vocab": {piece: i for i, piece in enumerate(pieces)},
            "merges": merges,
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))
    settings = {"src_lang": "deu_Latn", "tgt_lang": "eng_Latn", **tokenizer}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _write_model(folder: Path, weights: Weights) -> None:
    folder.mkdir(parents=True)
    safetensors.numpy.save_file(arrays_of(weights), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_of(weights)))
