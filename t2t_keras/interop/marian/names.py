"""Names of the arrays in a Marian model, and of our weights that they are.

Marian has two implementations of the Transformer. `transformer` is that of OPUS-MT and
of all releases; `transformer-new`, of Marian 1.12, can learn positions. Source:
marian-dev, src/models/transformer.h, src/models/transformer_new.h, src/layers_new.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import NamedTuple

CLASSIC, NEW = "transformer", "transformer-new"
EPSILONS = MappingProxyType({CLASSIC: 1e-6, NEW: 1e-5})
"""Number added to the variance in layer normalization, by type; it is no setting."""
POSITIONS = MappingProxyType(
    {
        "encoder": "TransformerBatchEncoder->encoder->positionEmbedding->embeddings",
        "decoder": "TransformerBatchDecoder->decoder->positionEmbedding->embeddings",
    }
)
"""Learned positions of the new type, by stack."""

_PROJECTIONS = ("query", "key", "value", "output")
# Classes that the new type names in the paths of its layers.
_CLASSES = MappingProxyType(
    {
        "encoder": "TransformerEncoderLayer",
        "decoder": "TransformerDecoderLayerWithCrossAttention",
    }
)


class ArrayName(NamedTuple):
    """One array of a stack.

    Attributes:
        theirs: Name of Marian's array.
        ours: Path of our weight below the model.
    """

    theirs: str
    ours: str

    @property
    def is_matrix(self) -> bool:
        """Whether it has two axes in both, and not one here."""
        return self.ours.endswith("kernel")


def stack_names(
    kind: str, stack: str, layers: int, *, pre_norm: bool, activation: str
) -> Iterator[ArrayName]:
    """Yields the arrays of a stack.

    Args:
        kind: `CLASSIC` or `NEW`.
        stack: "encoder" or "decoder".
        layers: Number of its layers.
        pre_norm: Whether layers are normalized before their sub-layers.
        activation: That of the feed-forward networks, on which names depend.
    """
    for layer in range(layers):
        if kind == CLASSIC:
            yield from _classic_layer(stack, layer, "_pre" if pre_norm else "")
        else:
            yield from _new_layer(stack, layer, pre_norm, activation)
    if pre_norm:
        # The classic step after the stack has the names of a step after a layer.
        theirs = f"{stack}_top_ln_scale", f"{stack}_top_ln_bias"
        if kind == NEW:
            theirs = _new_norm(f"{_root(stack)}->postprocessor")
        yield from _norm(theirs, f"{stack}/norm")


def last_norm(decoder_layers: int, pre_norm: bool) -> str:
    """Returns the path of the normalization that makes the decoder's output."""
    last = f"decoder/layer_{decoder_layers - 1}/feed_forward_residual/norm"
    return "decoder/norm" if pre_norm else last


def _parts(stack: str) -> list[tuple[str, str, str]]:
    """Returns the classic names of attentions, and our names of them and their norm."""
    parts = [("self", "attention", "attention_residual")]
    if stack == "decoder":
        parts.append(("context", "memory_attention", "memory_residual"))
    return parts


def _classic_layer(stack: str, layer: int, suffix: str) -> Iterator[ArrayName]:
    theirs, ours = f"{stack}_l{layer + 1}", f"{stack}/layer_{layer}"

    def norm(name: str) -> tuple[str, str]:
        return f"{theirs}_{name}_ln_scale{suffix}", f"{theirs}_{name}_ln_bias{suffix}"

    for name, attention, residual in _parts(stack):
        for letter, projection in zip("qkvo", _PROJECTIONS, strict=True):
            path = f"{ours}/{attention}/{projection}"
            yield ArrayName(f"{theirs}_{name}_W{letter}", f"{path}_kernel")
            yield ArrayName(f"{theirs}_{name}_b{letter}", f"{path}_bias")
        yield from _norm(norm(f"{name}_Wo"), f"{ours}/{residual}/norm")
    for number, name in (("1", "inner"), ("2", "outer")):
        path = f"{ours}/feed_forward/{name}"
        yield ArrayName(f"{theirs}_ffn_W{number}", f"{path}/kernel")
        yield ArrayName(f"{theirs}_ffn_b{number}", f"{path}/bias")
    yield from _norm(norm("ffn_ffn"), f"{ours}/feed_forward_residual/norm")


def _root(stack: str) -> str:
    return f"TransformerBatch{stack.title()}->{stack}"


def _new_layer(
    stack: str, layer: int, pre_norm: bool, activation: str
) -> Iterator[ArrayName]:
    theirs = f"{_root(stack)}->layers->at({layer})->as<marian::nn::{_CLASSES[stack]}>()"
    ours = f"{stack}/layer_{layer}"
    step = "preprocessor" if pre_norm else "postprocessor"
    own = "selfAttentionBlock" if stack == "encoder" else "autoRegressiveBlock"
    blocks = {
        "self": (own, "selfAttention"),
        "context": ("crossAttentionBlock", "crossAttention"),
    }
    for classic, attention, residual in _parts(stack):
        block, part = blocks[classic]
        for letter, projection in zip("qkvo", _PROJECTIONS, strict=True):
            linear = f"{theirs}->{block}->{part}->{letter}Proj"
            path = f"{ours}/{attention}/{projection}"
            yield ArrayName(f"{linear}->weight", f"{path}_kernel")
            yield ArrayName(f"{linear}->bias", f"{path}_bias")
        norm = _new_norm(f"{theirs}->{block}->{step}")
        yield from _norm(norm, f"{ours}/{residual}/norm")
    # ReLU is a part of the first product; other activations, and dropout, are layers.
    linears = [("LinearReluDropout", 0), ("Linear", 1)]
    if activation != "relu":
        linears = [("Linear", 0), ("Linear", 3)]
    for (kind, number), name in zip(linears, ("inner", "outer"), strict=True):
        linear = (
            f"{theirs}->filterBlock->layers->at({number})->as<marian::nn::{kind}>()"
        )
        path = f"{ours}/feed_forward/{name}"
        yield ArrayName(f"{linear}->weight", f"{path}/kernel")
        yield ArrayName(f"{linear}->bias", f"{path}/bias")
    norm = _new_norm(f"{theirs}->filterBlock->{step}")
    yield from _norm(norm, f"{ours}/feed_forward_residual/norm")


def _new_norm(step: str) -> tuple[str, str]:
    """Returns the new type's names of scale and bias in a step around a layer."""
    return f"{step}->norm->weight", f"{step}->norm->bias"


def _norm(theirs: tuple[str, str], ours: str) -> Iterator[ArrayName]:
    yield ArrayName(theirs[0], f"{ours}/gamma")
    yield ArrayName(theirs[1], f"{ours}/beta")
