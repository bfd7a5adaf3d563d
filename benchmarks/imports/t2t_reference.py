"""Logits of a Transformer of Tensor2Tensor in float64 NumPy, from its description.

It knows nothing of this project. Only checkpoints of pre-norm models are read, v2 and
v3 of its settings, with shared embeddings.

Shapes: S source length, T target length, D model width.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf


class Reference:
    """Model in a checkpoint.

    Args:
        checkpoint: Path of the checkpoint's files without their endings.
        hparams: Content of hparams.json.
        target_space: Row of the target space's embedding.
    """

    def __init__(self, checkpoint: str, hparams: Mapping[str, Any], target_space: int):
        reader = tf.train.load_checkpoint(checkpoint)
        names = reader.get_variable_to_shape_map()
        self._arrays = {
            name.removeprefix("transformer/"): reader.get_tensor(name).astype("float64")
            for name in names
            if name.startswith("transformer/")
        }
        (modality,) = {n.split("/")[0] for n in self._arrays if n.startswith("symbol")}
        count = sum(name.startswith(f"{modality}/shared") for name in self._arrays)
        self.table = np.concatenate(
            [self._arrays[f"{modality}/shared/weights_{i}"] for i in range(count)]
        )
        self._heads, self._layers = hparams["num_heads"], hparams["num_hidden_layers"]
        self._epsilon = hparams["norm_epsilon"]
        spaces = self._arrays["body/target_space_embedding/kernel"]
        self._space = spaces[target_space]

    def logits(self, source: list[int], target: list[int]) -> np.ndarray:
        """Returns [T, V], what the model says before each token of a target."""
        width = self.table.shape[1]
        x_SD = self._embed(source) + self._space + _timing(len(source), width)
        for i in range(self._layers):
            scope = f"body/encoder/layer_{i}"
            y_SD = self._norm(x_SD, f"{scope}/self_attention")
            x_SD = x_SD + self._attend(y_SD, y_SD, f"{scope}/self_attention", False)
            x_SD = x_SD + self._feed_forward(self._norm(x_SD, f"{scope}/ffn"), scope)
        memory_SD = self._norm(x_SD, "body/encoder")
        shifted = np.concatenate([np.zeros((1, width)), self._embed(target)[:-1]])
        x_TD = shifted + _timing(len(target), width)
        for i in range(self._layers):
            scope = f"body/decoder/layer_{i}"
            y_TD = self._norm(x_TD, f"{scope}/self_attention")
            x_TD = x_TD + self._attend(y_TD, y_TD, f"{scope}/self_attention", True)
            y_TD = self._norm(x_TD, f"{scope}/encdec_attention")
            name = f"{scope}/encdec_attention"
            x_TD = x_TD + self._attend(y_TD, memory_SD, name, False)
            x_TD = x_TD + self._feed_forward(self._norm(x_TD, f"{scope}/ffn"), scope)
        return self._norm(x_TD, "body/decoder") @ self.table.T

    def _embed(self, tokens: list[int]) -> np.ndarray:
        vectors = self.table[tokens] * np.sqrt(self.table.shape[1])
        return vectors * (np.array(tokens) != 0)[:, None]

    def _norm(self, x: np.ndarray, scope: str) -> np.ndarray:
        prefix = f"{scope}/layer_prepostprocess/layer_norm/layer_norm"
        centered = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + self._epsilon)
        scale, bias = (self._arrays[f"{prefix}_{part}"] for part in ("scale", "bias"))
        return centered / deviation * scale + bias

    def _attend(
        self, x: np.ndarray, memory: np.ndarray, scope: str, causal: bool
    ) -> np.ndarray:
        prefix = f"{scope}/multihead_attention"
        q, k, v = (
            self._heads_of(of @ self._arrays[f"{prefix}/{name}/kernel"])
            for of, name in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        scores = np.einsum("htk,hsk->hts", q, k) / np.sqrt(q.shape[-1])
        if causal:
            scores += np.triu(np.full(scores.shape[1:], -1e9), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        heads = np.einsum("hts,hsu->thu", weights, v).reshape(len(x), -1)
        return heads @ self._arrays[f"{prefix}/output_transform/kernel"]

    def _heads_of(self, x: np.ndarray) -> np.ndarray:
        """[L, D] to [H, L, K]."""
        return x.reshape(len(x), self._heads, -1).transpose(1, 0, 2)

    def _feed_forward(self, x: np.ndarray, scope: str) -> np.ndarray:
        for name, last in (("conv1", False), ("conv2", True)):
            prefix = f"{scope}/ffn/{name}"
            x = x @ self._arrays[f"{prefix}/kernel"] + self._arrays[f"{prefix}/bias"]
            x = x if last else np.maximum(x, 0.0)
        return x


def _timing(length: int, width: int) -> np.ndarray:
    """Sines of geometric wavelengths up to 10,000 turns, then cosines."""
    count = width // 2
    step = np.log(10_000.0) / (count - 1)
    angles = np.arange(length)[:, None] * np.exp(-step * np.arange(count))[None]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
