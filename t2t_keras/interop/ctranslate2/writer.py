"""CTranslate2 model directory, for another inference engine with the same results.

Shapes: V vocabulary, D model width, L positions, H heads, K size per head of queries
and keys, U of values, P the larger of K and U.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.versions import new_version
from t2t_keras.interop.arrays import pad_heads
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID

# Storage types of weights that CTranslate2 supports without PyTorch.
QUANTIZATIONS = ("float32", "float16", "int8", "int8_float32", "int16")

Weights: TypeAlias = Mapping[str, np.ndarray]


class Architecture(NamedTuple):
    """Arguments of the model that its weights do not show; see `Transformer`."""

    num_heads: int
    normalization: str = "post"
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-6
    decoder_start: int | str = "zero"
    source_eos: bool = True


def write_ctranslate2(
    weights: Weights,
    encodings: np.ndarray,
    pieces: tuple[Sequence[str], Sequence[str]],
    directory: str | os.PathLike[str],
    *,
    architecture: Architecture,
    quantization: str = "float32",
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> Path:
    """Writes a model directory of CTranslate2 atomically.

    Before the directory gets its name, CTranslate2 loads it and translates with it.
    Sources are pieces without EOS, which CTranslate2 adds. Log probabilities are the
    model's own, so padding has a probability. `suppress_sequences=[["<pad>"]]` ensures
    that it is never generated, and normalizes over the other pieces.

    Args:
        weights: Arrays by path below the model, such as "embedding/embeddings".
        encodings: [L, D] float32, positional encoding of each position. L limits the
            length of sources and translations.
        pieces: Piece of each source id and of each target id, all different.
        directory: Directory to write; must not exist.
        architecture: The rest of the model.
        quantization: One of `QUANTIZATIONS`.
        files: Additional files to write there, by name.

    Returns:
        `directory`.

    Raises:
        UserError: If CTranslate2 cannot translate with the model, if the directory
            exists, or if the quantization or the activation is unknown.
        OSError: If the directory cannot be written.

    Source: `ctranslate2.specs` of CTranslate2 4.8, and its scores (tests/system).
    """
    final = Path(directory)
    if quantization not in QUANTIZATIONS:
        raise UserError(
            f"--quantization must be one of {', '.join(QUANTIZATIONS)}. "
            f"Received: {quantization}"
        )
    if final.exists():
        raise UserError(f"{final} exists already. Give a folder that does not exist.")
    spec = _build_spec(weights, encodings, architecture)
    spec.register_source_vocabulary(list(pieces[0]))
    spec.register_target_vocabulary(list(pieces[1]))
    for name, value in _config(pieces[1], architecture).items():
        spec.config.add_attribute(name, value)
    spec.validate()
    spec.optimize(quantization)
    with new_version(final) as temporary:
        spec.save(str(temporary))
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        _check(temporary, pieces[0])
    return final


def _config(pieces: Sequence[str], architecture: Architecture) -> dict[str, Any]:
    """Returns the content of config.json."""
    start = architecture.decoder_start
    return {
        "layer_norm_epsilon": architecture.layer_norm_epsilon,
        "unk_token": pieces[UNK_ID],
        "eos_token": pieces[EOS_ID],
        "bos_token": pieces[PAD_ID],
        # Not embedded where the decoder starts from the zero vector.
        "decoder_start_token": pieces[start if isinstance(start, int) else PAD_ID],
        "add_source_eos": architecture.source_eos,
    }


def _activation(specs: Any, name: str) -> Any:
    """Returns CTranslate2's activation with a name of ours."""
    activations = {
        "relu": specs.Activation.RELU,
        "swish": specs.Activation.SWISH,
        "gelu": specs.Activation.GELU,  # exact, like ours
    }
    if name not in activations:
        raise UserError(
            f"CTranslate2 has no activation {name}, only {', '.join(activations)}. "
            "Export the model as a SavedModel."
        )
    return activations[name]


def _build_spec(
    weights: Weights, encodings: np.ndarray, architecture: Architecture
) -> Any:
    """Returns CTranslate2's specification of the model, including weights."""
    from ctranslate2 import specs

    num_heads = architecture.num_heads
    encoder_layers, decoder_layers = (
        sum(
            path.startswith(stack) and path.endswith("/attention/query_kernel")
            for path in weights
        )
        for stack in ("encoder/", "decoder/")
    )
    key_size, value_size = (
        weights[f"encoder/layer_0/attention/{name}_kernel"].shape[1] // num_heads
        for name in ("key", "value")
    )
    sizes = {
        "pre_norm": architecture.normalization == "pre",
        "activation": _activation(specs, architecture.activation),
        "head_dim": max(key_size, value_size),
    }
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(encoder_layers, num_heads, **sizes),
        specs.TransformerDecoderSpec(decoder_layers, num_heads, **sizes),
    )
    # The zero vector in place of the start token's embedding.
    spec.decoder.start_from_zero_embedding = architecture.decoder_start == "zero"
    embeddings_VD = weights["embedding/embeddings"].astype(np.float32)
    source_VD = weights.get("source_embedding/embeddings", embeddings_VD)
    spec.encoder.embeddings[0].weight = source_VD.astype(np.float32)
    spec.decoder.embeddings.weight = embeddings_VD
    output_VD = weights.get("embedding/output_matrix", embeddings_VD)
    spec.decoder.projection.weight = output_VD.astype(np.float32)
    if "embedding/output_bias" in weights:
        bias_V = weights["embedding/output_bias"].astype(np.float32)
        spec.decoder.projection.bias = bias_V
    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        stack.scale_embeddings = True  # by sqrt(D)
        # CTranslate2's own sinusoids are all sines first, then all cosines.
        stack.position_encodings.encodings = encodings.astype(np.float32)
        for i, layer in enumerate(stack.layer):
            _set_layer(layer, _weights_below(weights, f"{name}/layer_{i}/"), num_heads)
        if f"{name}/norm/gamma" in weights:  # after the layers, with pre-norm
            _set_norm(stack, _weights_below(weights, f"{name}/"), "norm")
    return spec


def _weights_below(weights: Weights, prefix: str) -> Weights:
    """Returns the weights below a path, by the rest of their paths."""
    return {
        path.removeprefix(prefix): weight.astype(np.float32)
        for path, weight in weights.items()
        if path.startswith(prefix)
    }


def _set_layer(layer: Any, weights: Weights, num_heads: int) -> None:
    """Sets the weights of a layer of the encoder or decoder."""
    _set_attention(
        layer.self_attention, _weights_below(weights, "attention/"), num_heads
    )
    _set_norm(layer.self_attention, weights, "attention_residual/norm")
    if hasattr(layer, "attention"):  # the decoder's cross-attention
        memory = _weights_below(weights, "memory_attention/")
        _set_attention(layer.attention, memory, num_heads)
        _set_norm(layer.attention, weights, "memory_residual/norm")
    for linear, name in ((layer.ffn.linear_0, "inner"), (layer.ffn.linear_1, "outer")):
        linear.weight = weights[f"feed_forward/{name}/kernel"].T
        linear.bias = weights[f"feed_forward/{name}/bias"]
    _set_norm(layer.ffn, weights, "feed_forward_residual/norm")


def _set_norm(part: Any, weights: Weights, path: str) -> None:
    """Sets the layer normalization of a sub-layer or a stack."""
    part.layer_norm.gamma = weights[f"{path}/gamma"]
    part.layer_norm.beta = weights[f"{path}/beta"]


def _set_attention(attention: Any, weights: Weights, num_heads: int) -> None:
    """Sets the projections of a multi-head attention.

    CTranslate2 has one size per head, P. If K and U differ, the smaller is padded with
    zeros, which change neither scores nor sums; the scale stays that of K.
    """
    names = "query", "key", "value"
    sizes = {name: weights[f"{name}_kernel"].shape[1] // num_heads for name in names}
    size = max(sizes.values())
    # In self-attention, one product has all three.
    groups = [names] if len(attention.linear) == 2 else [names[:1], names[1:]]
    for linear, group in zip(attention.linear[:-1], groups, strict=True):
        kernels = [weights[f"{name}_kernel"].T for name in group]
        linear.weight = np.concatenate(
            [pad_heads(kernel, num_heads, size) for kernel in kernels]
        )
        if "output_bias" in weights:
            biases = [weights[f"{name}_bias"][:, None] for name in group]
            linear.bias = np.concatenate(
                [pad_heads(bias, num_heads, size)[:, 0] for bias in biases]
            )
    attention.queries_scale = sizes["query"] ** -0.5
    output = pad_heads(weights["output_kernel"], num_heads, size)
    attention.linear[-1].weight = np.ascontiguousarray(output.T)
    if "output_bias" in weights:
        attention.linear[-1].bias = weights["output_bias"]


def _check(directory: Path, pieces: Sequence[str]) -> None:
    """Raises `UserError` unless CTranslate2 loads and uses the written model."""
    from ctranslate2 import Translator

    try:
        translator = Translator(str(directory), intra_threads=1)
        (result,) = translator.translate_batch(
            [[pieces[-1]]], max_decoding_length=4, return_scores=True
        )
        score = result.scores[0]
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"CTranslate2 cannot translate with the exported model: {error}"
        ) from error
    if not np.isfinite(score):
        raise UserError(
            f"The exported model's score must be finite. Received: {score}. Check the "
            "checkpoint with t2t_keras.evaluate."
        )
