"""Files of Marian models, written from its description in tests alone."""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import yaml

from tests.interop.small_models import PIECES, SIZES, H, join_heads
from tests.reference.weights_np import Options, Weights

# Our id of each of Marian's: end of sentence 0, unknown 1, then words; no padding.
ORDER = (1, 2, *range(3, len(PIECES)))
DECODER = "decoder.yml"
MARIAN = MappingProxyType({"position_layout": "halves_t2t", "attention_bias": True})
POST = Options(**MARIAN, activation="swish", output_bias=True)


def marian_arrays(weights: Weights) -> dict[str, np.ndarray]:
    """Returns Marian's arrays of the reference's weights."""
    arrays: dict[str, np.ndarray] = {}
    shared = weights.source_embedding is None
    table = "Wemb" if shared else "decoder_Wemb"
    arrays[table] = weights.embedding[[*ORDER]]
    if weights.source_embedding is not None:
        arrays["encoder_Wemb"] = weights.source_embedding[[*ORDER]]
    if weights.output_embedding is not None:
        arrays["decoder_ff_logit_out_W"] = weights.output_embedding[[*ORDER]].T
    if weights.options.output_bias:
        arrays["decoder_ff_logit_out_b"] = np.array(weights.output_bias)[None, [*ORDER]]
    suffix = "_pre" if weights.options.normalization == "pre" else ""
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(weights, f"{stack}_layers"), start=1):
            arrays |= _layer(f"{stack}_l{number}", layer, suffix)
        norm = getattr(weights, f"{stack}_norm")
        if norm is not None:
            arrays[f"{stack}_top_ln_scale"] = norm.gain[None]
            arrays[f"{stack}_top_ln_bias"] = norm.bias[None]
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _layer(prefix: str, layer: Any, suffix: str) -> dict[str, np.ndarray]:
    arrays = {}
    for name, ours in (("self", "self_attention"), ("context", "cross_attention")):
        if not hasattr(layer, ours):
            continue
        part, norm = getattr(layer, ours), getattr(layer, f"{ours}_norm")
        for letter, projection in zip("qkv", ("query", "key", "value"), strict=True):
            bias = join_heads(getattr(part, f"{projection}_bias"))
            arrays[f"{prefix}_{name}_W{letter}"] = join_heads(getattr(part, projection))
            arrays[f"{prefix}_{name}_b{letter}"] = bias[None]
        arrays[f"{prefix}_{name}_Wo"] = part.output.reshape(-1, part.output.shape[-1])
        arrays[f"{prefix}_{name}_bo"] = part.output_bias[None]
        arrays[f"{prefix}_{name}_Wo_ln_scale{suffix}"] = norm.gain[None]
        arrays[f"{prefix}_{name}_Wo_ln_bias{suffix}"] = norm.bias[None]
    inner, norm = layer.feed_forward, layer.feed_forward_norm
    arrays[f"{prefix}_ffn_W1"], arrays[f"{prefix}_ffn_b1"] = inner.w1, inner.b1[None]
    arrays[f"{prefix}_ffn_W2"], arrays[f"{prefix}_ffn_b2"] = inner.w2, inner.b2[None]
    arrays[f"{prefix}_ffn_ffn_ln_scale{suffix}"] = norm.gain[None]
    arrays[f"{prefix}_ffn_ffn_ln_bias{suffix}"] = norm.bias[None]
    return arrays


def marian_settings(weights: Weights, **changed: Any) -> dict[str, Any]:
    """Returns the settings that Marian embeds."""
    options = weights.options
    norm = {"transformer-preprocess": "", "transformer-postprocess": "dan"}
    if options.normalization == "pre":
        norm = {"transformer-preprocess": "n", "transformer-postprocess": "da"}
        norm["transformer-postprocess-top"] = "n"
    return {
        "type": "transformer",
        "dim-emb": SIZES.d_model,
        "enc-depth": len(weights.encoder_layers),
        "dec-depth": len(weights.decoder_layers),
        "transformer-heads": H,
        "transformer-dim-ffn": SIZES.d_ff,
        "transformer-ffn-activation": options.activation,
        "transformer-tied-layers": [],
        "version": "v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700",
        **norm,
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }


def write_marian(
    folder: Path,
    weights: Weights,
    *,
    settings: dict[str, Any] | None = None,
    arrays: dict[str, np.ndarray] | None = None,
    decoder: dict[str, Any] | None = None,
) -> Path:
    """Writes a folder of OPUS-MT's layout, without SentencePiece models."""
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.dump(settings or marian_settings(weights)).encode() + b"\0"
    np.savez(
        folder / "model.npz",
        **(arrays or marian_arrays(weights)),
        **{"special:model.yml": np.frombuffer(text, np.int8)},
    )
    pieces = [PIECES[i] for i in ORDER]
    lines = [f"{json.dumps(piece)}: {i}\n" for i, piece in enumerate(pieces)]
    (folder / "vocab.yml").write_text("".join(lines))
    search = {
        "models": ["model.npz"],
        "vocabs": ["vocab.yml", "vocab.yml"],
        "relative-paths": True,
        "beam-size": 3,
        "normalize": 1,
        "word-penalty": 0,
        **(decoder or {}),
    }
    (folder / DECODER).write_text(yaml.dump(search))
    return folder
