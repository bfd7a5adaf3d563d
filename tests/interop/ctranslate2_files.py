"""Files of CTranslate2, written from their description in tests alone."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.small_models import PIECES, join_heads
from tests.reference.weights_np import Weights

# Our id of each of theirs: padding, a start that has no other use, end, words, unknown.
BLANK, START = "<blank>", "<s>"


def vocabulary() -> list[str]:
    """Their pieces: <blank>, <s>, </s>, words, <unk>."""
    return [BLANK, START, "</s>", *PIECES[4:], "<unk>"]


# <s> takes the place of our first word.
ORDER = (0, 3, 1, *range(4, len(PIECES)), 2)


def variables_of(weights: Weights) -> dict[str, np.ndarray]:
    """Returns their variables of the reference's weights."""
    source = weights.source_embedding
    source = weights.embedding if source is None else source
    output = weights.output_embedding
    output = weights.embedding if output is None else output
    variables = {
        "encoder/embeddings/weight": source[[*ORDER]],
        "decoder/embeddings/weight": weights.embedding[[*ORDER]],
        "decoder/projection/weight": output[[*ORDER]],
    }
    if weights.options.output_bias:
        variables["decoder/projection/bias"] = np.array(weights.output_bias)[[*ORDER]]
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(weights, f"{stack}_layers")):
            prefix = f"{stack}/layer_{number}"
            variables |= _attention(f"{prefix}/self_attention", layer, "self_attention")
            if stack == "decoder":
                variables |= _attention(f"{prefix}/attention", layer, "cross_attention")
            inner = layer.feed_forward
            for name, kernel, bias in (
                ("linear_0", inner.w1, inner.b1),
                ("linear_1", inner.w2, inner.b2),
            ):
                variables[f"{prefix}/ffn/{name}/weight"] = kernel.T
                variables[f"{prefix}/ffn/{name}/bias"] = bias
            variables |= _norm(f"{prefix}/ffn", layer.feed_forward_norm)
        norm = getattr(weights, f"{stack}_norm")
        if norm is not None:
            variables |= _norm(stack, norm)
    return {name: np.asarray(v, np.float32) for name, v in variables.items()}


def _norm(prefix: str, norm: Any) -> dict[str, np.ndarray]:
    path = f"{prefix}/layer_norm"
    return {f"{path}/gamma": norm.gain, f"{path}/beta": norm.bias}


def _attention(prefix: str, layer: Any, name: str) -> dict[str, np.ndarray]:
    part = getattr(layer, name)
    names = ("query", "key", "value")
    groups = [names] if name == "self_attention" else [names[:1], names[1:]]
    variables = _norm(prefix, getattr(layer, f"{name}_norm"))
    for number, group in enumerate(groups):
        path = f"{prefix}/linear_{number}"
        kernels = [join_heads(getattr(part, each)).T for each in group]
        biases = [join_heads(getattr(part, f"{each}_bias")) for each in group]
        variables[f"{path}/weight"] = np.concatenate(kernels)
        variables[f"{path}/bias"] = np.concatenate(biases)
    path = f"{prefix}/linear_{len(groups)}"
    variables[f"{path}/weight"] = part.output.reshape(-1, part.output.shape[-1]).T
    variables[f"{path}/bias"] = part.output_bias
    return variables


def write_binary(
    path: Path,
    variables: dict[str, np.ndarray],
    *,
    version: int = 6,
    spec: str = "TransformerSpec",
    revision: int = 7,
) -> None:
    """Writes a file `model.bin` of a version."""

    def text(content: str) -> bytes:
        return struct.pack("<H", len(content) + 1) + content.encode() + b"\0"

    types = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
    parts = [struct.pack("<I", version), text(spec), struct.pack("<I", revision)]
    parts.append(struct.pack("<I", len(variables)))
    for name, array in variables.items():
        parts.append(text(name) + struct.pack("<B", array.ndim))
        parts.append(struct.pack(f"<{array.ndim}I", *array.shape))
        if version >= 4:
            parts.append(struct.pack("<B", types.index(array.dtype.name)))
            parts.append(struct.pack("<I", array.nbytes))
        else:
            parts.append(struct.pack("<BI", array.itemsize, array.size))
        parts.append(array.tobytes())
    if version >= 3:
        parts.append(struct.pack("<I", 0))
    path.write_bytes(b"".join(parts))


def write_ctranslate2(
    folder: Path,
    variables: dict[str, np.ndarray],
    config: dict[str, Any] | None,
    **file,
) -> Path:
    """Writes a folder with two vocabularies, without the unknown token as theirs are.

    Args:
        folder: The folder.
        variables: Variables of model.bin.
        config: Content of config.json; None for older models, which have none.
        **file: Settings of `write_binary`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_binary(folder / "model.bin", variables, **file)
    for side in ("source", "target"):
        if config is None:
            text = "".join(f"{piece}\n" for piece in vocabulary()[:-1])
            (folder / f"{side}_vocabulary.txt").write_text(text)
        else:
            path = folder / f"{side}_vocabulary.json"
            path.write_text(json.dumps(vocabulary()))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder
