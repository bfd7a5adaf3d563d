"""Beam search with the Transformer, from source ids to translations.

Shapes: B sentences, S source length.
"""

import functools

import tensorflow as tf

from t2t_keras.decoding.beam_search import beam_search
from t2t_keras.decoding.search_state import BeamSearchResult, axis_size
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.model.kv_cache import DecodeState
from t2t_keras.model.transformer import Transformer
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

    A translation may have `extra_length` tokens more than its own source, which need
    not be the longest of the batch (section 6.1). A source without a token, EOS aside,
    becomes EOS at once, so that a blank line does not hold up its batch.

    Args:
        model: The Transformer.
        source: [B, S] int32.
        settings: Beam size, length penalty and number of results.
        extra_length: Tokens that a translation may have more than its source.
        options: Settings and inputs of each sentence. A source without a token becomes
            EOS whatever its prefix.
        max_length: Maximum number of tokens of any translation, EOS counted.
        growing: Whether KV caches grow and finished sentences leave the batch. Faster,
            but not for XLA, which needs constant shapes, S included.
    """
    length = axis_size(source, 1) + extra_length
    limits_B = tf.reduce_sum(tf.cast(source != 0, tf.int32), axis=1) + extra_length
    is_text_BS = (source != 0) & (source != settings.eos_id)
    limits_B = tf.where(tf.reduce_any(is_text_BS, axis=1), limits_B, 1)
    if model.max_positions is not None:
        # Tokens past the last learned position would be indistinguishable.
        limits_B = tf.minimum(limits_B, model.max_positions)
    if max_length is not None:
        limits_B = tf.minimum(limits_B, max_length)
        length = tf.minimum(length, max_length)
    step_fn = functools.partial(
        model.decode_step, kernels=model.decode_kernels(), in_place=growing
    )
    return beam_search(
        step_fn,
        model.prefill(source, slots=0 if growing else length * settings.beam_size),
        max_lengths=limits_B,
        max_decode_length=length,
        vocabulary_size=model.sizes["vocabulary_size"],
        settings=settings,
        options=options,
        grow_fn=DecodeState.grow if growing else None,
    )
