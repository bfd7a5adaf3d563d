"""The batch contract, checked where a batch is made; `typing.py` has its names.

    encoder_input_tokens    the source: "wir gehen ." END
    decoder_input_tokens    the target one step late, a padding id in front
    decoder_target_tokens   the target: "we go ." END
    decoder_loss_weights    1 where a target token counts, 0 at padding

Where several pairs share a row (ADR 0016) there are four more:

    encoder_segment_ids     which pair of its row a source token is of, from 1
    encoder_positions       where in its sentence it stands, from 0
    decoder_segment_ids     the same of the target
    decoder_positions

All are [B, S] or [B, T]: those of the decoder have one shape, those of the encoder
another, and both have as many rows (ADR 0002). Padding is 0 everywhere.
"""

import tensorflow as tf

from t2t_keras.typing import (
    DECODER_TARGET_TOKENS,
    ENCODER_INPUT_TOKENS,
    FEATURE_DTYPES,
    PACKED_FEATURE_DTYPES,
    Batch,
)


def element_spec(*, packed: bool) -> dict[str, tf.TensorSpec]:
    """Returns the TensorSpec of every feature of a batch, whatever its shape.

    Args:
        packed: Whether several pairs share a row.
    """
    return {
        name: tf.TensorSpec([None, None], dtype)
        for name, dtype in (PACKED_FEATURE_DTYPES if packed else FEATURE_DTYPES)
    }


def check_batch(batch: Batch) -> None:
    """Refuses a batch that breaks the contract.

    Looks at names, dtypes and static shapes only: it costs nothing inside a
    traced function and next to nothing outside. A batch with any feature of packed
    ones must have all of them.

    Args:
        batch: Tensors, NumPy arrays or TensorSpecs by feature name.

    Raises:
        ValueError: If a feature is missing or unknown, or has another dtype,
            rank or shape; the message names it.
    """
    extra = set(dict(PACKED_FEATURE_DTYPES)) - set(dict(FEATURE_DTYPES))
    dtypes = PACKED_FEATURE_DTYPES if extra & set(batch) else FEATURE_DTYPES
    expected = dict(dtypes)
    if set(batch) != set(expected):
        raise ValueError(
            f"A batch must have the features {sorted(expected)}. Missing: "
            f"{sorted(set(expected) - set(batch))}. "
            f"Unknown: {sorted(set(batch) - set(expected))}"
        )
    for name, dtype in dtypes:
        found = tf.as_dtype(batch[name].dtype).name
        if found != dtype:
            raise ValueError(f"{name} must be {dtype}. Received: {found}")
        shape = tf.TensorShape(batch[name].shape)
        if shape.rank != 2:
            raise ValueError(f"{name} must be of rank 2, [B, L]. Received: {shape}")
    _check_shapes_agree(batch)


def _check_shapes_agree(batch: Batch) -> None:
    source = tf.TensorShape(batch[ENCODER_INPUT_TOKENS].shape)
    target = tf.TensorShape(batch[DECODER_TARGET_TOKENS].shape)
    for name, feature in batch.items():
        side, expected = (
            (ENCODER_INPUT_TOKENS, source)
            if name.startswith("encoder")
            else (DECODER_TARGET_TOKENS, target)
        )
        shape = tf.TensorShape(feature.shape)
        if not shape.is_compatible_with(expected):
            raise ValueError(
                f"{name} must have the shape of {side}, {expected}. Received: {shape}"
            )
    if not source[:1].is_compatible_with(target[:1]):
        raise ValueError(
            f"{ENCODER_INPUT_TOKENS} must have as many rows as "
            f"{DECODER_TARGET_TOKENS}, {target}. Received: {source}"
        )
