"""The batch contract: what a batch holds, checked where it is made and used.

    encoder_input_tokens    the source: "wir gehen ." END
    decoder_input_tokens    the target one step late, a padding id in front
    decoder_target_tokens   the target: "we go ." END
    decoder_loss_weights    1 where a target token counts, 0 at padding

All four are [B, L]; the three of the decoder have one shape, and the encoder's
has as many rows (ADR 0002).
"""

import tensorflow as tf

from t2t_keras.typing import Batch

ENCODER_INPUT_TOKENS = "encoder_input_tokens"
DECODER_INPUT_TOKENS = "decoder_input_tokens"
DECODER_TARGET_TOKENS = "decoder_target_tokens"
DECODER_LOSS_WEIGHTS = "decoder_loss_weights"

FEATURE_DTYPES: tuple[tuple[str, str], ...] = (
    (ENCODER_INPUT_TOKENS, "int32"),
    (DECODER_INPUT_TOKENS, "int32"),
    (DECODER_TARGET_TOKENS, "int32"),
    (DECODER_LOSS_WEIGHTS, "float32"),
)


def element_spec(rows: int | None, bound: int | None) -> dict[str, tf.TensorSpec]:
    """Returns the TensorSpec of every feature of a batch.

    Args:
        rows: Number of sentence pairs; None where it differs by bucket.
        bound: Padded length of both sides; None where it differs by bucket.
    """
    return {
        name: tf.TensorSpec([rows, bound], dtype, name=name)
        for name, dtype in FEATURE_DTYPES
    }


def check_batch(batch: Batch) -> None:
    """Refuses a batch that breaks the contract.

    Looks at names, dtypes and static shapes only: it costs nothing inside a
    traced function and next to nothing outside.

    Args:
        batch: Tensors, NumPy arrays or TensorSpecs by feature name.

    Raises:
        ValueError: If a feature is missing or unknown, or has another dtype,
            rank or shape; the message names it.
    """
    expected = dict(FEATURE_DTYPES)
    if set(batch) != set(expected):
        raise ValueError(
            f"A batch must have the features {sorted(expected)}. Missing: "
            f"{sorted(set(expected) - set(batch))}. "
            f"Unknown: {sorted(set(batch) - set(expected))}"
        )
    for name, dtype in FEATURE_DTYPES:
        found = tf.as_dtype(batch[name].dtype).name
        if found != dtype:
            raise ValueError(f"{name} must be {dtype}. Received: {found}")
        shape = tf.TensorShape(batch[name].shape)
        if shape.rank != 2:
            raise ValueError(f"{name} must be of rank 2, [B, L]. Received: {shape}")
    _check_shapes_agree(batch)


def _check_shapes_agree(batch: Batch) -> None:
    target = tf.TensorShape(batch[DECODER_TARGET_TOKENS].shape)
    for name in (DECODER_INPUT_TOKENS, DECODER_LOSS_WEIGHTS):
        shape = tf.TensorShape(batch[name].shape)
        if not shape.is_compatible_with(target):
            raise ValueError(
                f"{name} must have the shape of {DECODER_TARGET_TOKENS}, {target}. "
                f"Received: {shape}"
            )
    source = tf.TensorShape(batch[ENCODER_INPUT_TOKENS].shape)
    if not source[:1].is_compatible_with(target[:1]):
        raise ValueError(
            f"{ENCODER_INPUT_TOKENS} must have as many rows as "
            f"{DECODER_TARGET_TOKENS}, {target}. Received: {source}"
        )
