"""Beam search over the Transformer: where its keys and values are kept.

Shapes: B sentences, S source length, W hypotheses of each, X slots of a cache, H heads,
K and U sizes per head of keys and values.
"""

import dataclasses

import tensorflow as tf

from t2t_keras.decoding import key_value_cache
from t2t_keras.decoding.beam_search import BeamSearchResult, beam_search
from t2t_keras.decoding.key_value_cache import KeyValueCache
from t2t_keras.decoding.search_state import Cache, size_of
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.model.transformer import DecodeKernels, Transformer
from t2t_keras.typing import Tensor


def search_translations(
    model: Transformer,
    source: Tensor,
    settings: BeamSearchSettings,
    extra_length: int,
    options: RowOptions | None = None,
    *,
    max_length: int | None = None,
    growing: bool = True,
) -> BeamSearchResult:
    """Returns the best translations of source ids [B, S] int32, padded with 0.

    A translation may have `extra_length` tokens more than its own source, whatever
    else is in the batch (section 6.1). A source without a token, EOS aside, becomes EOS
    at once: a blank line holds nobody's batch.

    Args:
        model: Whose.
        source: [B, S] int32.
        settings: How to search.
        extra_length: See above.
        options: What each sentence has instead of the settings.
        max_length: Most tokens of any translation, EOS counted.
        growing: Whether caches grow and sentences leave the batch when they are done:
            faster, but not for XLA, which wants shapes that stay, S static among them.
    """
    batch, longest = size_of(source, 0), size_of(source, 1)
    length = longest + extra_length
    limits_B = tf.reduce_sum(tf.cast(source != 0, tf.int32), axis=1) + extra_length
    is_text_BS = (source != 0) & (source != settings.eos_id)
    limits_B = tf.where(tf.reduce_any(is_text_BS, axis=1), limits_B, 1)
    if model.sizes["learned_positions"]:
        # Past the last learned position there is nothing to tell tokens apart.
        limits_B = tf.minimum(limits_B, model.sizes["learned_positions"])
    if max_length is not None:
        limits_B = tf.minimum(limits_B, max_length)
        length = tf.minimum(length, max_length)
    stepper = _Stepper(model, model.decode_kernels(), in_place=growing)
    return beam_search(
        stepper.step,
        {
            "past": stepper.empty_caches(
                batch, 0 if growing else length * settings.beam_size
            ),
            "encoder_state": model.prefill(source),
        },
        max_lengths=limits_B,
        max_decode_length=length,
        vocabulary_size=model.sizes["vocabulary_size"],
        settings=settings,
        options=options,
        grow_fn=_grow if growing else None,
    )


@dataclasses.dataclass(frozen=True)
class _Stepper:
    """The model, as a search sees it.

    Attributes:
        model: The model.
        kernels: What its `decode_kernels` returned.
        in_place: Whether caches are written to as they stand.
    """

    model: Transformer
    kernels: DecodeKernels
    in_place: bool

    def empty_caches(
        self, batch: int | Tensor, slots: int | Tensor
    ) -> list[tuple[KeyValueCache, KeyValueCache]]:
        """Returns keys [B, H, X, K] and values [B, H, X, U] of each layer."""
        sizes = self.model.sizes
        return [
            tuple(
                key_value_cache.empty(
                    batch, sizes["num_heads"], slots, size, self.model.compute_dtype
                )
                for size in (sizes["d_k"], sizes["d_v"])
            )
            for _ in range(sizes["num_layers"])
        ]

    def step(
        self,
        tokens: Tensor,
        position: Tensor,
        first_slot: Tensor,
        past: Tensor,
        cache: Cache,
    ) -> tuple[Tensor, Cache]:
        """The search's step function: see `StepFn`."""
        layers = cache["past"]
        rows = key_value_cache.rows_written(
            first_slot, tf.shape(layers[0][0]), tf.shape(tokens)[1]
        )
        kept = [_Extended(keys, values, rows, self.in_place) for keys, values in layers]
        logits = self.model.decode_step(
            tokens, position, past, kept, cache["encoder_state"], self.kernels
        )
        return logits, {**cache, "past": [(each.keys, each.values) for each in kept]}


def _grow(cache: Cache, index: Tensor, more: Tensor) -> Cache:
    """Returns the cache with other slots: see `GrowFn`."""
    past = [
        tuple(key_value_cache.grown(part, index, more) for part in layer)
        for layer in cache["past"]
    ]
    return {**cache, "past": past}


class _Extended:
    """One layer's keys and values, which a step adds to: an `ExtendFn`."""

    def __init__(
        self,
        keys: KeyValueCache,
        values: KeyValueCache,
        rows: Tensor,
        in_place: bool,
    ):
        self.keys, self.values = keys, values
        self._rows = rows
        self._in_place = in_place

    def __call__(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keeps [B, W, H, K] and [B, W, H, U]; returns all, [B, H, X, K] and so on."""
        rows, in_place = self._rows, self._in_place
        self.keys = key_value_cache.written(self.keys, keys, rows, in_place=in_place)
        self.values = key_value_cache.written(
            self.values, values, rows, in_place=in_place
        )
        return self.keys, self.values
