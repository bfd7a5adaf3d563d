"""Names of a MarianMT model's arrays, and of our weights that they are.

Source: transformers 5, models/marian/modeling_marian.py.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import NamedTuple

STACKS = ("encoder", "decoder")
SHARED = "model.shared.weight"
DECODER_EMBEDDING = "model.decoder.embed_tokens.weight"
ENCODER_EMBEDDING = "model.encoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
BIAS = "final_logits_bias"

EPSILON = 1e-5
"""Of their layer normalization; no setting changes it."""
ACTIVATIONS = MappingProxyType(
    {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
)
"""Our names of their activations; gelu is exact there too."""

_PROJECTIONS = (
    ("q_proj", "query"),
    ("k_proj", "key"),
    ("v_proj", "value"),
    ("out_proj", "output"),
)


class LayerName(NamedTuple):
    """One array of a layer.

    Attributes:
        theirs: Name of their array.
        ours: Path of our weight below the model.
        is_kernel: Whether it is a matrix, which they have transposed: [out, in].
    """

    theirs: str
    ours: str
    is_kernel: bool = False


def layer_names(stack: str, layer: int) -> Iterator[LayerName]:
    """Yields the arrays of a layer, numbered from 0, of the "encoder" or "decoder"."""
    theirs, ours = f"model.{stack}.layers.{layer}", f"{stack}/layer_{layer}"
    parts = [("self_attn", "attention", "attention_residual")]
    if stack == "decoder":
        parts.append(("encoder_attn", "memory_attention", "memory_residual"))
    norms = [("final_layer_norm", "feed_forward_residual")]
    for part, attention, residual in parts:
        for projection, name in _PROJECTIONS:
            path = f"{theirs}.{part}.{projection}", f"{ours}/{attention}/{name}"
            yield LayerName(f"{path[0]}.weight", f"{path[1]}_kernel", is_kernel=True)
            yield LayerName(f"{path[0]}.bias", f"{path[1]}_bias")
        norms.append((f"{part}_layer_norm", residual))
    for linear, name in (("fc1", "inner"), ("fc2", "outer")):
        path = f"{theirs}.{linear}", f"{ours}/feed_forward/{name}"
        yield LayerName(f"{path[0]}.weight", f"{path[1]}/kernel", is_kernel=True)
        yield LayerName(f"{path[0]}.bias", f"{path[1]}/bias")
    for norm, residual in norms:
        path = f"{theirs}.{norm}", f"{ours}/{residual}/norm"
        yield LayerName(f"{path[0]}.weight", f"{path[1]}/gamma")
        yield LayerName(f"{path[0]}.bias", f"{path[1]}/beta")
