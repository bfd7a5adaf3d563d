"""Limits of a request to an export, and checks of its tensors in the graph.

A server passes a tensor of any rank to the graph, even against the signature. A tensor
of another rank is refused by an op whose name states the expected rank and ends the
error message. The server never joins a request with such a tensor with others. Values
out of range are clipped, row by row, because the rows of a batch come from different
clients.

Shapes: B batch, S source length.
"""

import dataclasses

import tensorflow as tf

from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID
from t2t_keras.typing import Tensor

# Maximum strength of the length penalty. Well below it, length alone decides.
MAX_ALPHA = 10.0


@dataclasses.dataclass(frozen=True)
class ServingLimits:
    """Bounds on the work of a request. Longer inputs are cut, not refused.

    An error would fail all requests that a server has joined into one batch.

    Attributes:
        source_length: Maximum tokens of a source, including EOS.
        target_length: Maximum tokens of a target to score, including EOS.
        characters: Maximum code points of a normalized source, or None for the number
            that `source_length` implies.
        attention_length: Maximum tokens of either side in an attention map, whose size
            grows with the square of it.
        beam_size: Maximum beam size that a request may choose.
        n_best: N, number of translations of each text in the `nbest` signature.

    Raises:
        ValueError: If a limit is below 1.
    """

    source_length: int
    target_length: int
    characters: int | None = None
    attention_length: int = 64
    beam_size: int = 8
    n_best: int = 4

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1. Received: {value}")


def check_texts(tensor: Tensor, name: str) -> Tensor:
    """Returns [B] string unchanged; a tensor of another rank fails at run time."""
    return tf.ensure_shape(tensor, [None], name=f"{name}_must_have_rank_1")


def check_pairs(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns two [B] string unchanged; unequal sizes fail at run time."""
    source = check_texts(source, "source")
    target = check_texts(target, "target")
    same = tf.debugging.assert_equal(
        tf.shape(source),
        tf.shape(target),
        message="The numbers of targets and sources must be equal.",
    )
    with tf.control_dependencies([same] if same is not None else []):
        return tf.identity(source), tf.identity(target)


def check_option(value: Tensor, each: Tensor, name: str) -> Tensor:
    """Returns an option for each text, [B]; a scalar applies to all.

    Args:
        value: Scalar or [B].
        each: [1] int32, B.
        name: Name of the option.
    """
    return tf.broadcast_to(value, each, name=f"{name}_must_be_one_or_one_for_each_text")


def check_ids(
    input_ids: Tensor, vocabulary_size: int, max_length: int
) -> tuple[Tensor, Tensor]:
    """Returns valid ids of limited length, and which rows were too long.

    An invalid id becomes the unknown one. A row that is too long is cut and ended by
    EOS.

    Args:
        input_ids: [B, S] int32, padded with 0.
        vocabulary_size: V.
        max_length: Maximum tokens of a row, including EOS.

    Returns:
        [B, S'] int32, S' from 1 to `max_length`, and [B] bool.
    """
    whole_BS = tf.ensure_shape(input_ids, [None, None], name="ids_must_have_rank_2")
    is_id_BS = (whole_BS >= 0) & (whole_BS < vocabulary_size)
    # The result has at least one position, also for empty rows or no row.
    missing = tf.maximum(1 - tf.shape(whole_BS)[1], 0)
    clean_BS = tf.pad(tf.where(is_id_BS, whole_BS, UNK_ID), [[0, 0], [0, missing]])
    truncated_B = tf.reduce_any(clean_BS[:, max_length:] != PAD_ID, axis=1)
    kept_BS = clean_BS[:, :max_length]
    is_last_S = tf.range(tf.shape(kept_BS)[1]) == max_length - 1
    ends_BS = truncated_B[:, None] & is_last_S
    return tf.where(ends_BS, EOS_ID, kept_BS), truncated_B
