"""Files of MarianMT models, written from their description in tests alone."""

import dataclasses
import io
import json
import pickle
import sys
import types
import zipfile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import safetensors.numpy

from tests.interop.small_models import PIECES, SIZES, H, join_heads
from tests.interop.tokenizer_files import write_spm_pair
from tests.reference.weights_np import (
    AttentionWeights,
    DecoderLayerWeights,
    EncoderLayerWeights,
    FeedForwardWeights,
    LayerNormWeights,
    Options,
    Weights,
)

# Our id of each of theirs: end of sentence, unknown, words, and padding last.
ORDER = (1, 2, *range(3, len(PIECES)), 0)
STORAGES = MappingProxyType(
    {
        "float32": "FloatStorage",
        "float16": "HalfStorage",
        "bfloat16": "BFloat16Storage",
    }
)
NAMES = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"))


def arrays_of(weights: Weights) -> dict[str, np.ndarray]:
    """Returns their arrays of the reference's weights."""
    arrays: dict[str, np.ndarray] = {}
    if weights.source_embedding is None:
        arrays["model.shared.weight"] = weights.embedding[[*ORDER]]
    else:
        arrays["model.decoder.embed_tokens.weight"] = weights.embedding[[*ORDER]]
        arrays["model.encoder.embed_tokens.weight"] = weights.source_embedding[[*ORDER]]
    if weights.output_embedding is not None:
        arrays["lm_head.weight"] = weights.output_embedding[[*ORDER]]
    arrays["final_logits_bias"] = np.array(weights.output_bias)[None, [*ORDER]]
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(weights, f"{stack}_layers")):
            arrays |= layer_arrays(f"model.{stack}.layers.{number}", layer)
    return {name: value.astype(np.float32) for name, value in arrays.items()}


def layer_arrays(prefix: str, layer: Any) -> dict[str, np.ndarray]:
    arrays = {}
    parts = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}
    for name, ours in parts.items():
        if not hasattr(layer, ours):
            continue
        part, norm = getattr(layer, ours), getattr(layer, f"{ours}_norm")
        for projection, theirs in NAMES:
            path = f"{prefix}.{name}.{theirs}"
            arrays[f"{path}.weight"] = join_heads(getattr(part, projection)).T
            arrays[f"{path}.bias"] = join_heads(getattr(part, f"{projection}_bias"))
        output = part.output.reshape(-1, part.output.shape[-1])
        arrays[f"{prefix}.{name}.out_proj.weight"] = output.T
        arrays[f"{prefix}.{name}.out_proj.bias"] = part.output_bias
        arrays[f"{prefix}.{name}_layer_norm.weight"] = norm.gain
        arrays[f"{prefix}.{name}_layer_norm.bias"] = norm.bias
    inner, norm = layer.feed_forward, layer.feed_forward_norm
    arrays[f"{prefix}.fc1.weight"], arrays[f"{prefix}.fc1.bias"] = inner.w1.T, inner.b1
    arrays[f"{prefix}.fc2.weight"], arrays[f"{prefix}.fc2.bias"] = inner.w2.T, inner.b2
    arrays[f"{prefix}.final_layer_norm.weight"] = norm.gain
    arrays[f"{prefix}.final_layer_norm.bias"] = norm.bias
    return arrays


def sizes_of(weights: Weights) -> dict[str, Any]:
    """Returns the settings of config.json that every architecture has."""
    return {
        "vocab_size": len(PIECES),
        "d_model": SIZES.d_model,
        "encoder_layers": len(weights.encoder_layers),
        "decoder_layers": len(weights.decoder_layers),
        "encoder_attention_heads": H,
        "decoder_attention_heads": H,
        "encoder_ffn_dim": SIZES.d_ff,
        "decoder_ffn_dim": SIZES.d_ff,
        "activation_function": weights.options.activation,
        "scale_embedding": True,
    }


def config_of(weights: Weights) -> dict[str, Any]:
    return {
        "model_type": "marian",
        **sizes_of(weights),
        "share_encoder_decoder_embeddings": weights.source_embedding is None,
        "tie_word_embeddings": weights.output_embedding is None,
        "eos_token_id": 0,
        "pad_token_id": len(PIECES) - 1,
        "decoder_start_token_id": len(PIECES) - 1,
        "num_beams": 6,
    }


def write_transformers(folder: Path, weights: Weights) -> Path:
    """Writes a folder as `save_pretrained` does, with words as pieces."""
    folder.mkdir(parents=True)
    arrays = {name: value.copy() for name, value in arrays_of(weights).items()}
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_of(weights)))
    ids = {PIECES[ours]: theirs for theirs, ours in enumerate(ORDER)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    write_spm_pair(folder)
    return folder


class Tensor:
    """Stands for a tensor in a pickle: an array in row-major order."""

    def __init__(self, key: str, array: np.ndarray):
        self.key, self.array = key, np.ascontiguousarray(array)


class _Pickler(pickle.Pickler):
    """Pickler that writes tensors as PyTorch does."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return NotImplemented
        strides = tuple(step // value.array.itemsize for step in value.array.strides)
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        arguments = (_Reference(value), 0, value.array.shape, strides, False, {})
        return rebuild, arguments

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, _Reference):
            return None
        array = value.tensor.array
        dtype = getattr(sys.modules["torch"], STORAGES[array.dtype.name])
        return "storage", dtype, value.tensor.key, "cpu", array.size


class _Reference:
    def __init__(self, tensor: Tensor):
        self.tensor = tensor


def write_torch(path: Path, content: Any, monkeypatch, *, old: bool = False) -> None:
    """Writes what `torch.save` does: a zip archive or, before 1.6, pickles in a row."""
    for name in ("torch", "torch._utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name in STORAGES.values():
        kind = type(name, (), {"__module__": "torch"})
        monkeypatch.setattr(sys.modules["torch"], name, kind, raising=False)

    def _rebuild_tensor_v2():
        raise AssertionError

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    module = sys.modules["torch._utils"]
    monkeypatch.setattr(module, "_rebuild_tensor_v2", _rebuild_tensor_v2, raising=False)
    tensors = {}
    if isinstance(content, dict):
        arrays = content.items()
        tensors = {name: Tensor(str(i), a) for i, (name, a) in enumerate(arrays)}
        content = tensors
    pickled = io.BytesIO()
    _Pickler(pickled, protocol=2).dump(content)
    if not old:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", pickled.getvalue())
            for tensor in tensors.values():
                archive.writestr(f"model/data/{tensor.key}", tensor.array.tobytes())
        return
    with path.open("wb") as file:
        for head in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(head, file, protocol=2)
        file.write(pickled.getvalue())
        pickle.dump([tensor.key for tensor in tensors.values()], file, protocol=2)
        for tensor in tensors.values():
            file.write(tensor.array.size.to_bytes(8, "little"))
            file.write(tensor.array.tobytes())


def read_reference(folder: Path) -> Weights:
    """Returns the reference's weights of a written folder, in this project's order.

    Padding, end of sentence and unknown come first, then the other pieces by their ids.
    """
    arrays = {
        name: value.astype(np.float64)
        for name, value in safetensors.numpy.load_file(
            folder / "model.safetensors"
        ).items()
    }
    config = json.loads((folder / "config.json").read_text())
    orders = {}
    for name in ("vocab", "target_vocab"):
        path = folder / f"{name}.json"
        if path.is_file():
            orders[name] = _own_order(json.loads(path.read_text()))
    source = orders["vocab"]
    target = orders.get("target_vocab", source)
    shared = arrays.get("model.shared.weight")
    start = target.index(config["decoder_start_token_id"])
    options = Options(
        activation=config["activation_function"],
        layer_norm_epsilon=1e-5,
        position_layout="halves",
        decoder_start=start,
        attention_bias=True,
        output_bias=True,
        tie_output=config["tie_word_embeddings"],
        share_embeddings=shared is not None,
    )
    embedding = arrays.get("model.decoder.embed_tokens.weight", shared)
    assert embedding is not None
    if start == 0:
        assert not embedding[target[0]].any()
    weights = Weights(
        embedding=embedding[target],
        output_bias=arrays["final_logits_bias"][0, target],
        options=options,
        encoder_layers=[
            EncoderLayerWeights(**_read_layer(arrays, config, "encoder", number))
            for number in range(config["encoder_layers"])
        ],
        decoder_layers=[
            DecoderLayerWeights(**_read_layer(arrays, config, "decoder", number))
            for number in range(config["decoder_layers"])
        ],
    )
    if shared is None:
        own = arrays["model.encoder.embed_tokens.weight"][source]
        weights = dataclasses.replace(weights, source_embedding=own)
    if not options.tie_output:
        own = arrays["lm_head.weight"][target]
        weights = dataclasses.replace(weights, output_embedding=own)
    return weights


def _own_order(ids: dict[str, int]) -> list[int]:
    special = [ids["<pad>"], ids["</s>"], ids["<unk>"]]
    return [*special, *sorted(set(ids.values()) - set(special))]


def _read_layer(
    arrays: dict[str, np.ndarray], config: dict[str, Any], stack: str, number: int
) -> dict[str, Any]:
    prefix = f"model.{stack}.layers.{number}"
    heads = config[f"{stack}_attention_heads"]

    def norm(name: str) -> LayerNormWeights:
        path = f"{prefix}.{name}"
        return LayerNormWeights(arrays[f"{path}.weight"], arrays[f"{path}.bias"])

    def attention(name: str) -> AttentionWeights:
        path, values = f"{prefix}.{name}", {}
        for projection, theirs in NAMES:
            kernel = arrays[f"{path}.{theirs}.weight"].T
            values[projection] = kernel.reshape(len(kernel), heads, -1)
            bias = arrays[f"{path}.{theirs}.bias"]
            values[f"{projection}_bias"] = bias.reshape(heads, -1)
        output = arrays[f"{path}.out_proj.weight"].T
        values["output"] = output.reshape(heads, -1, output.shape[-1])
        return AttentionWeights(**values, output_bias=arrays[f"{path}.out_proj.bias"])

    layer: dict[str, Any] = {
        "self_attention": attention("self_attn"),
        "self_attention_norm": norm("self_attn_layer_norm"),
        "feed_forward": FeedForwardWeights(
            arrays[f"{prefix}.fc1.weight"].T,
            arrays[f"{prefix}.fc1.bias"],
            arrays[f"{prefix}.fc2.weight"].T,
            arrays[f"{prefix}.fc2.bias"],
        ),
        "feed_forward_norm": norm("final_layer_norm"),
    }
    if stack == "decoder":
        layer["cross_attention"] = attention("encoder_attn")
        layer["cross_attention_norm"] = norm("encoder_attn_layer_norm")
    return layer
