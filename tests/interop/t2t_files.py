"""Checkpoints of Tensor2Tensor, written by TensorFlow 1's Saver in tests alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.interop.small_models import PIECES, SIZES, H, join_heads
from tests.reference.weights_np import Weights

_SHARDS = 4
# Our id of each of theirs: no unknown token.
ORDER = (0, 1, *range(3, len(PIECES)))
MODALITY = f"transformer/symbol_modality_{len(ORDER)}_{SIZES.d_model}"


def t2t_arrays(weights: Weights, space: np.ndarray | None) -> dict[str, np.ndarray]:
    """Returns the variables of the reference's weights.

    Args:
        weights: Weights; sources without the vector of the target space.
        space: The embedding of target spaces; None for a model without one.
    """
    arrays = _shards("shared", weights.embedding[[*ORDER]])
    if weights.output_embedding is not None:
        arrays = _shards("input_emb", weights.embedding[[*ORDER]])
        arrays |= _shards("target_emb", weights.embedding[[*ORDER]])
        arrays |= _shards("softmax", weights.output_embedding[[*ORDER]])
    if space is not None:
        arrays["transformer/body/target_space_embedding/kernel"] = space
    pre_norm = weights.options.normalization == "pre"
    for stack in ("encoder", "decoder"):
        scope = f"transformer/body/{stack}"
        for number, layer in enumerate(getattr(weights, f"{stack}_layers")):
            arrays |= _layer(f"{scope}/layer_{number}", layer, pre_norm)
        norm = getattr(weights, f"{stack}_norm")
        if norm is not None:
            arrays |= _norm(f"{scope}/layer_prepostprocess", norm)
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def _shards(scope: str, matrix: np.ndarray) -> dict[str, np.ndarray]:
    parts = np.array_split(matrix, _SHARDS)
    return {f"{MODALITY}/{scope}/weights_{i}": part for i, part in enumerate(parts)}


def _norm(scope: str, norm: Any) -> dict[str, np.ndarray]:
    prefix = f"{scope}/layer_norm/layer_norm"
    return {f"{prefix}_scale": norm.gain, f"{prefix}_bias": norm.bias}


def _layer(scope: str, layer: Any, pre_norm: bool) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    number = "" if pre_norm else "_1"
    parts = {"self_attention": "self_attention", "encdec_attention": "cross_attention"}
    for name, ours in parts.items():
        if not hasattr(layer, ours):
            continue
        part = getattr(layer, ours)
        prefix = f"{scope}/{name}/multihead_attention"
        for letter, kind in zip("qkv", ("query", "key", "value"), strict=True):
            arrays[f"{prefix}/{letter}/kernel"] = join_heads(getattr(part, kind))
        output = part.output.reshape(-1, part.output.shape[-1])
        arrays[f"{prefix}/output_transform/kernel"] = output
        arrays |= _norm(
            f"{scope}/{name}/layer_prepostprocess{number}",
            getattr(layer, f"{ours}_norm"),
        )
    inner = layer.feed_forward
    arrays[f"{scope}/ffn/conv1/kernel"] = inner.w1
    arrays[f"{scope}/ffn/conv1/bias"] = inner.b1
    arrays[f"{scope}/ffn/conv2/kernel"] = inner.w2
    arrays[f"{scope}/ffn/conv2/bias"] = inner.b2
    norm = layer.feed_forward_norm
    return arrays | _norm(f"{scope}/ffn/layer_prepostprocess{number}", norm)


def hparams_of(weights: Weights, **changed: Any) -> dict[str, Any]:
    pre_norm = weights.options.normalization == "pre"
    return {
        "hidden_size": SIZES.d_model,
        "num_heads": H,
        "filter_size": SIZES.d_ff,
        "num_hidden_layers": 99,
        "num_encoder_layers": len(weights.encoder_layers),
        "num_decoder_layers": len(weights.decoder_layers),
        "layer_preprocess_sequence": "n" if pre_norm else "none",
        "layer_postprocess_sequence": "da" if pre_norm else "dan",
        "norm_epsilon": 1e-6,
        "attention_key_channels": 0,
        "attention_value_channels": 0,
        "pos": "timing",
        **changed,
    }


def write_t2t(
    folder: Path, hparams: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Path:
    """Writes a folder with a checkpoint of step 7 and two vocabularies."""
    folder.mkdir(parents=True, exist_ok=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, array in arrays.items():
            tf.compat.v1.get_variable(name, initializer=array)
        tf.compat.v1.get_variable("global_step", initializer=np.int64(7))
        tf.compat.v1.get_variable("training/beta1_power", initializer=0.9)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        saver.save(
            session, str(folder / "model.ckpt"), global_step=7, write_meta_graph=False
        )
    write_hparams(folder, hparams)
    subwords = ["<pad>", "<EOS>", *(f"{piece}_" for piece in PIECES[3:])]
    write_subwords(folder / "vocab.ours.subwords", subwords)
    write_subwords(folder / "vocab.other.subwords", [*subwords, "more_"])
    return folder


def write_hparams(folder: Path, hparams: dict[str, Any]) -> None:
    (folder / "hparams.json").write_text(json.dumps(hparams))


def write_subwords(path: Path, subwords: list[str]) -> None:
    path.write_text("".join(f"'{subword}'\n" for subword in subwords))
