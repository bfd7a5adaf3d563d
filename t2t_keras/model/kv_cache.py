"""KV cache: keys and values that decoding computes once and reads at every step.

Shapes: B sentences, W beams (hypotheses) of each, X slots, H heads, K size per head of
keys, U of values.
"""

from typing import NamedTuple

from keras import ops

from t2t_keras.model.embedding import OutputRows
from t2t_keras.typing import Tensor


class KVCache(NamedTuple):
    """Keys and values of one attention layer; a step takes a cache and returns one.

    The keys and values of a token do not change when later tokens follow. So they are
    computed once and cached, and each step of decoding projects new tokens only:
    `DecoderLayer.step` writes them.

    In self-attention, a cache has X slots that all beams of a sentence share. At each
    step beam w writes its newest token to slot `first_slot + w`. It attends to
    `visible_slots` [B, W, X] bool: those that it and its ancestors wrote. The beam
    search keeps these two. No key or value is copied for a beam, or moved when beams
    change places, and the W beams of a sentence are W rows of one product with its
    slots (ADR 0020).

    In cross-attention, the slots are the S positions of the encoder's output. They are
    filled once per sentence, and no step writes to them.

    `decoding.in_place_cache` has the cache of a search in TensorFlow, which grows.

    Attributes:
        keys: [B, H, X, K] float.
        values: [B, H, X, U] float.
    """

    keys: Tensor
    values: Tensor

    @classmethod
    def empty(
        cls,
        batch: int | Tensor,
        num_heads: int,
        slots: int | Tensor,
        d_k: int,
        d_v: int,
        dtype: str,
    ) -> "KVCache":
        """Returns a cache whose slots hold zeros."""
        return cls(
            ops.zeros((batch, num_heads, slots, d_k), dtype),
            ops.zeros((batch, num_heads, slots, d_v), dtype),
        )

    def rows(self, first_slot: Tensor | int, beams: Tensor | int) -> Tensor:
        """Returns [B H W] int32, the rows of this cache that a step writes to.

        Computed once per step: they are the same in all layers.

        Args:
            first_slot: int32 scalar. Beam w writes to slot `first_slot + w`.
            beams: W.

        Returns:
            Indices of the first axis of a cache seen as [B H X, K].
        """
        batch, heads, slots, _ = ops.shape(self.keys)
        first_row = ops.arange(batch * heads, dtype="int32") * slots + first_slot
        rows = ops.expand_dims(first_row, 1) + ops.arange(beams, dtype="int32")
        return ops.reshape(rows, (-1,))

    def write(self, keys: Tensor, values: Tensor, rows: Tensor) -> "KVCache":
        """Returns the cache with the keys and values of each beam's newest token.

        Args:
            keys: [B, H, W, K] float.
            values: [B, H, W, U] float.
            rows: [B H W] int32, from `rows` of this cache or another layer's.
        """
        return KVCache(_write(self.keys, keys, rows), _write(self.values, values, rows))


class DecodeState(NamedTuple):
    """KV caches of all decoder layers, and what else a sentence has for all steps.

    Its tensors are [B, ...].

    Attributes:
        self_attention: The KV cache of each decoder layer: tokens decoded so far.
        cross_attention: The KV cache of each decoder layer: the encoder's output.
        source_mask: [B, 1, S] bool, True on real source tokens.
        output_rows: Output projection onto the tokens of a shortlist; `()` for none.
    """

    self_attention: list[KVCache]
    cross_attention: list[KVCache]
    source_mask: Tensor
    output_rows: OutputRows | tuple[()] = ()


def _write(part: Tensor, newest: Tensor, rows: Tensor) -> Tensor:
    """Returns keys or values [B, H, X, K] with `newest` [B, H, W, K] in their rows."""
    size = part.shape[3]
    updated = ops.scatter_update(
        ops.reshape(part, (-1, size)),
        ops.expand_dims(rows, 1),
        ops.reshape(newest, (-1, size)),
    )
    return ops.reshape(updated, ops.shape(part))
