"""Transformer of "Attention Is All You Need" in PyTorch.

Computes what this project's model computes, except that a batch has no padding: so
attention needs no mask, and PyTorch may choose flash attention. Dropout is the paper's,
of the sums of embeddings and positions and of the output of each sub-layer, and not of
attention. Post-norm, no biases in attention, one embedding for source, target and
output.

    B batch, L length, S source and T target length, D model width, V vocabulary,
    N = B T
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

SMOOTHING = 0.1
# Logits of a chunk of the loss: half a gigabyte in float32.
LOGITS_AT_ONCE = 2**27

Sizes = Mapping[str, Any]


class SelfAttention(nn.Module):
    """Multi-head self-attention with one product for queries, keys and values."""

    def __init__(self, sizes: Sizes, is_causal: bool):
        super().__init__()
        self.heads = sizes["num_heads"]
        self.is_causal = is_causal
        self.widths = [self.heads * sizes[name] for name in ("d_k", "d_k", "d_v")]
        self.inputs = nn.Linear(sizes["d_model"], sum(self.widths), bias=False)
        self.output = nn.Linear(self.widths[-1], sizes["d_model"], bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns [B, L, D] from [B, L, D]."""
        query, key, value = self.inputs(x).split(self.widths, dim=-1)
        return self.output(attend(query, key, value, self.heads, self.is_causal))


class CrossAttention(nn.Module):
    """Multi-head attention to a memory, with one product for keys and values."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.heads = sizes["num_heads"]
        self.widths = [self.heads * sizes[name] for name in ("d_k", "d_v")]
        self.query = nn.Linear(sizes["d_model"], self.widths[0], bias=False)
        self.memory = nn.Linear(sizes["d_model"], sum(self.widths), bias=False)
        self.output = nn.Linear(self.widths[-1], sizes["d_model"], bias=False)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Returns [B, T, D] from [B, T, D] and the memory [B, S, D]."""
        key, value = self.memory(memory).split(self.widths, dim=-1)
        return self.output(attend(self.query(x), key, value, self.heads, False))


def attend(
    query: Tensor, key: Tensor, value: Tensor, heads: int, is_causal: bool
) -> Tensor:
    """Returns attention's heads side by side, [B, T, heads * d_v]."""
    split = [
        each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in (query, key, value)
    ]
    averages = functional.scaled_dot_product_attention(*split, is_causal=is_causal)
    return averages.transpose(1, 2).flatten(-2)


class AddAndNorm(nn.Module):
    """LayerNorm(x + Dropout(y)) in the data type of y."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.norm = nn.LayerNorm(sizes["d_model"], eps=1e-6)
        self.dropout = nn.Dropout(sizes["dropout_rate"])

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Returns [B, L, D] from x and a sub-layer's output y."""
        # Autocasting makes the sub-layer's output bfloat16, but the norm float32.
        return self.norm(x + self.dropout(y)).to(y.dtype)


class Layer(nn.Module):
    """Layer of the encoder, or with cross-attention of the decoder."""

    def __init__(self, sizes: Sizes, is_decoder: bool):
        super().__init__()
        self.self_attention = SelfAttention(sizes, is_causal=is_decoder)
        self.self_attention_norm = AddAndNorm(sizes)
        if is_decoder:
            self.cross_attention = CrossAttention(sizes)
            self.cross_attention_norm = AddAndNorm(sizes)
        self.inner = nn.Linear(sizes["d_model"], sizes["d_ff"])
        self.outer = nn.Linear(sizes["d_ff"], sizes["d_model"])
        self.feed_forward_norm = AddAndNorm(sizes)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """Returns [B, L, D] from [B, L, D]."""
        x = self.self_attention_norm(x, self.self_attention(x))
        if memory is not None:
            x = self.cross_attention_norm(x, self.cross_attention(x, memory))
        transformed = self.outer(functional.relu(self.inner(x)))
        return self.feed_forward_norm(x, transformed)


class Transformer(nn.Module):
    """Encoder and decoder.

    Args:
        sizes: Arguments of the project's `Transformer`.
        length: Tokens of the longest source or target.
    """

    positions: Tensor

    def __init__(self, sizes: Sizes, length: int):
        super().__init__()
        width = sizes["d_model"]
        self.scale = math.sqrt(width)
        self.embedding = nn.Embedding(sizes["vocabulary_size"], width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.dropout = nn.Dropout(sizes["dropout_rate"])
        self.encoder, self.decoder = (
            nn.ModuleList(Layer(sizes, is_decoder) for _ in range(sizes[count]))
            for count, is_decoder in (
                ("encoder_layers", False),
                ("decoder_layers", True),
            )
        )
        self.register_buffer("positions", sinusoids(length, width), persistent=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns the decoder's output [B, T, D] from ids [B, S] and [B, T]."""
        memory = self.encode_positions(self.embed(source))
        for layer in self.encoder:
            memory = layer(memory)
        # The decoder's input is the target one later, with the zero vector in front.
        shifted = functional.pad(self.embed(target)[:, :-1], (0, 0, 1, 0))
        hidden = self.encode_positions(shifted)
        for layer in self.decoder:
            hidden = layer(hidden, memory)
        return hidden

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns scaled embeddings [B, L, D]."""
        return self.embedding(tokens) * self.scale

    def encode_positions(self, vectors: Tensor) -> Tensor:
        """Returns vectors [B, L, D] with positional encodings, after dropout."""
        return self.dropout(vectors + self.positions[: vectors.shape[1]])


def sinusoids(length: int, width: int) -> Tensor:
    """Returns [length, width], sines in the even channels and cosines in the odd."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.arange(length)[:, None] / 10_000**exponents
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


def whole_loss(hidden: Tensor, embeddings: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean loss of [N, D], with all logits [N, V] in memory."""
    return _sum_losses(hidden, embeddings, targets) / len(targets)


def chunked_loss(
    hidden: Tensor,
    embeddings: Tensor,
    targets: Tensor,
    logits_at_once: int = LOGITS_AT_ONCE,
) -> Tensor:
    """Returns the same loss by chunks, whose logits are computed twice, not stored."""
    chunks = math.ceil(len(targets) * len(embeddings) / logits_at_once)
    sums = [
        checkpoint(_sum_losses, part, embeddings, part_targets, use_reentrant=False)
        for part, part_targets in zip(
            hidden.chunk(chunks), targets.chunk(chunks), strict=True
        )
    ]
    return torch.stack(sums).sum() / len(targets)


def _sum_losses(hidden: Tensor, embeddings: Tensor, targets: Tensor) -> Tensor:
    # PyTorch spreads SMOOTHING over all V tokens, the project over all but the true
    # one. It is the same work.
    logits = functional.linear(hidden, embeddings).float()
    return functional.cross_entropy(
        logits, targets, reduction="sum", label_smoothing=SMOOTHING
    )
