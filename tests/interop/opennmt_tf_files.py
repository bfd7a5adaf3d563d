"""Runs of OpenNMT-tf, written from their description in tests alone."""

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf
import yaml

from tests.interop.small_models import PIECES, SIZES, H, join_heads
from tests.reference.weights_np import Weights

# Their tokens of each side: <blank>, <s>, </s>, words; the unknown token has no line.
SPECIAL = ("<blank>", "<s>", "</s>")
SOURCE = (*SPECIAL, *(f"s{piece[1:]}" for piece in PIECES[4:]))
TARGET = (*SPECIAL, *PIECES[4:])
# Our id of each of theirs: <s> takes the place of our first word.
ORDER = (0, 3, 1, *range(4, len(PIECES)), 2)
FEATURES = "examples_inputter/features_inputter/embedding"
LABELS = "examples_inputter/labels_inputter/embedding"
KERNEL = "decoder/output_layer/kernel"
_FUNCTIONS = MappingProxyType(
    {"relu": "tf.nn.relu", "gelu": "tf.nn.gelu", "swish": "tf.nn.silu"}
)


def opennmt_arrays(weights: Weights) -> dict[str, np.ndarray]:
    """Returns the variables of the reference's weights, by their path in the model.

    Those that others share are left out, as in a checkpoint.
    """
    arrays = {FEATURES: weights.embedding[[*ORDER]]}
    if weights.source_embedding is not None:
        arrays[FEATURES] = weights.source_embedding[[*ORDER]]
        arrays[LABELS] = weights.embedding[[*ORDER]]
    if weights.output_embedding is not None:
        arrays[KERNEL] = weights.output_embedding[[*ORDER]].T
    if weights.options.output_bias:
        arrays["decoder/output_layer/bias"] = np.array(weights.output_bias)[[*ORDER]]
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(weights, f"{stack}_layers")):
            arrays |= _layer(f"{stack}/layers/{number}", layer, weights)
        norm = getattr(weights, f"{stack}_norm")
        if norm is not None:
            arrays |= _norm(f"{stack}/layer_norm", norm)
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def _norm(path: str, norm: Any) -> dict[str, np.ndarray]:
    return {f"{path}/gamma": norm.gain, f"{path}/beta": norm.bias}


def _layer(path: str, layer: Any, weights: Weights) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    place = "input" if weights.options.normalization == "pre" else "output"
    parts = {"self_attention": "self_attention", "attention/0": "cross_attention"}
    for name, ours in parts.items():
        if not hasattr(layer, ours):
            continue
        part = getattr(layer, ours)
        prefix = f"{path}/{name}/layer/linear"
        output = part.output.reshape(-1, part.output.shape[-1])
        arrays[f"{prefix}_output/kernel"] = output
        for kind, theirs in (
            ("query", "queries"),
            ("key", "keys"),
            ("value", "values"),
        ):
            arrays[f"{prefix}_{theirs}/kernel"] = join_heads(getattr(part, kind))
            if weights.options.attention_bias:
                bias = join_heads(getattr(part, f"{kind}_bias"))
                arrays[f"{prefix}_{theirs}/bias"] = bias
        if weights.options.attention_bias:
            arrays[f"{prefix}_output/bias"] = part.output_bias
        norm = getattr(layer, f"{ours}_norm")
        arrays |= _norm(f"{path}/{name}/{place}_layer_norm", norm)
    inner = layer.feed_forward
    arrays[f"{path}/ffn/layer/inner/kernel"] = inner.w1
    arrays[f"{path}/ffn/layer/inner/bias"] = inner.b1
    arrays[f"{path}/ffn/layer/outer/kernel"] = inner.w2
    arrays[f"{path}/ffn/layer/outer/bias"] = inner.b2
    norm = layer.feed_forward_norm
    return arrays | _norm(f"{path}/ffn/{place}_layer_norm", norm)


def arguments_of(weights: Weights, **changed: str) -> dict[str, str]:
    """Returns the arguments of the model as Python code."""
    options = weights.options
    layers = len(weights.encoder_layers), len(weights.decoder_layers)
    return {
        "num_layers": str(layers),
        "num_units": str(SIZES.d_model),
        "num_heads": str(H),
        "ffn_inner_dim": str(SIZES.d_ff),
        "dropout": "0.2",
        "ffn_activation": _FUNCTIONS[options.activation],
        "mha_bias": str(options.attention_bias),
        "pre_norm": str(options.normalization == "pre"),
        **changed,
    }


def description_of(arguments: Mapping[str, str]) -> str:
    """Returns the code of a class that passes arguments on."""
    passed = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return (
        "import opennmt\nimport tensorflow as tf\n\n"
        "class Small(opennmt.models.Transformer):\n"
        '    """A small model."""\n\n'
        f"    def __init__(self):\n        super().__init__({passed})\n\n"
        "model = Small\n"
    )


def write_checkpoint(
    folder: Path, arrays: Mapping[str, np.ndarray], step: int = 7
) -> None:
    """Writes a checkpoint of objects, with the state of an optimizer."""
    key = tuple(
        (name, array.tobytes(), array.shape, array.dtype.str)
        for name, array in arrays.items()
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _checkpoint_files(key, step).items():
        (folder / name).write_bytes(content)


# To make one takes a second, and many tests need the same.
@functools.lru_cache(maxsize=8)
def _checkpoint_files(key: tuple, step: int) -> Mapping[str, bytes]:
    root = tf.Module()
    variables = []
    for path, content, shape, dtype in key:
        array = np.frombuffer(content, dtype).reshape(shape)
        module: Any = root
        *before, last = path.split("/")
        for name, following in zip(before, path.split("/")[1:], strict=True):
            if isinstance(module, list):
                while len(module) <= int(name):
                    module.append(tf.Module())
                module = module[int(name)]
            else:
                if not hasattr(module, name):
                    setattr(module, name, [] if following.isdigit() else tf.Module())
                module = getattr(module, name)
        variables.append(tf.Variable(array))
        setattr(module, last, variables[-1])
    optimizer = tf.compat.v1.train.AdamOptimizer(0.0)
    trained = [each for each in variables if each.dtype == tf.float32][:3]
    if trained:
        optimizer.apply_gradients([(tf.ones_like(each), each) for each in trained])
    checkpoint = tf.train.Checkpoint(model=root, optimizer=optimizer)
    with tempfile.TemporaryDirectory() as folder:
        tf.train.CheckpointManager(checkpoint, folder, 3).save(step)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def write_vocabulary(path: Path, tokens: tuple[str, ...]) -> None:
    path.write_text("".join(f"{token}\n" for token in tokens))


def write_opennmt_tf(
    folder: Path,
    weights: Weights,
    *,
    arrays: Mapping[str, np.ndarray] | None = None,
    description: str | None = None,
    data: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a run with its configuration and vocabularies, and returns its folder.

    Args:
        folder: Folder to write.
        weights: The reference's weights.
        arrays: Variables in place of those of the weights.
        description: Code in place of that of the weights.
        data: Further settings of the text.
        params: Settings of the search.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder, opennmt_arrays(weights) if arrays is None else arrays)
    code = description_of(arguments_of(weights)) if description is None else description
    (folder / "model_description.py").write_text(code)
    write_vocabulary(folder / "source.txt", SOURCE)
    write_vocabulary(folder / "target.txt", TARGET)
    config = {
        "model_dir": "elsewhere",
        "data": {
            "source_vocabulary": "vocabularies/source.txt",
            "target_vocabulary": "target.txt",
            "source_sequence_controls": {"end": weights.options.source_eos},
            **(data or {}),
        },
        "params": dict(params or {}),
    }
    (folder / "data.yml").write_text(yaml.safe_dump(config))
    return folder
