"""Training step of PyTorch's `nn.Transformer` on the same batch, eager or compiled.

Uses fused Adam. `nn.Transformer` also applies dropout inside attention and
feed-forward.
"""

import math

import numpy as np
import torch
from torch import nn

from benchmarks.training_step.measured import (
    DROPOUT,
    HEADS,
    INNER,
    LAYERS,
    SMOOTHING,
    VOCABULARY,
    WIDTH,
    arguments,
    report,
)


class Model(nn.Module):
    """`nn.Transformer` with sinusoids and one embedding for inputs and output."""

    def __init__(self, length: int):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        self.transformer = nn.Transformer(
            WIDTH, HEADS, LAYERS, LAYERS, INNER, DROPOUT, batch_first=True
        )
        self.dropout = nn.Dropout(DROPOUT)
        angles = np.arange(length)[:, None] / 10_000 ** (np.arange(0, WIDTH, 2) / WIDTH)
        positions = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, -1)
        self.register_buffer("positions", torch.tensor(positions, dtype=torch.float32))

    def forward(self, source, shifted):
        """Returns logits [B, T, V]."""
        length = shifted.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(length)
        padding = source == 0
        hidden = self.transformer(
            self.embed(source),
            self.embed(shifted),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return hidden @ self.embedding.weight.T

    def embed(self, tokens):
        """Returns embeddings with positional encodings [B, L, D]."""
        vectors = self.embedding(tokens) * math.sqrt(WIDTH)
        return self.dropout(vectors + self.positions[: tokens.shape[1]])


def main() -> None:
    """Times steps on one batch."""
    args = arguments(precision=["float32", "bfloat16"], mode=["eager", "compile"])
    torch.manual_seed(0)
    shape = (args.rows, args.length)
    random = np.random.default_rng(0)
    source, target = (torch.tensor(random.integers(3, VOCABULARY, shape)) for _ in "st")
    shifted = torch.zeros_like(target)
    shifted[:, 1:] = target[:, :-1]
    model = Model(args.length).train()
    adam = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    forward = torch.compile(model) if args.mode == "compile" else model

    def step() -> float:
        adam.zero_grad(set_to_none=True)
        with torch.autocast(
            "cpu", torch.bfloat16, enabled=args.precision == "bfloat16"
        ):
            logits = forward(source, shifted)
        loss = nn.functional.cross_entropy(
            logits.float().flatten(0, 1), target.flatten(), label_smoothing=SMOOTHING
        )
        loss.backward()
        adam.step()
        return float(loss)

    report(step, target.numel(), args.steps)


if __name__ == "__main__":
    main()
