"""Limits of a request to an export, and checks of its tensors in the graph.

A server passes on a tensor of any rank, even against the signature. A tensor of another
rank is refused by an op whose name says what was expected, which ends the error
message: a request with such a tensor is never joined with others. Values that are
merely out of range are clipped, row by row, because the rows of a batch come from
different people.

Shapes: B batch, S source length.
"""

import dataclasses

import tensorflow as tf

from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID
from t2t_keras.typing import Tensor

# Largest strength of the length penalty that is used. Length alone decides well below.
MAX_ALPHA = 10.0


@dataclasses.dataclass(frozen=True)
class ServingLimits:
    """Bounds on the work of a request. Longer inputs are cut, never refused.

    An error would fail all requests that a server has joined into one batch.

    Attributes:
        source_length: Most tokens of a source, EOS counted.
        target_length: Most tokens of a target to score, EOS counted.
        characters: Most code points of a normalized source, or None for as many as
            `source_length` allows anyway.
        attention_length: Most tokens of either side whose attention is asked for:
            the answer grows with its square.
        beam_size: Most live hypotheses a sentence, where a request may choose.
        n_best: N, translations of each text where several are asked for.

    Raises:
        ValueError: If one is below 1.
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
    """Returns [B] string as it is; anything of another rank fails when it is run."""
    return tf.ensure_shape(tensor, [None], name=f"{name}_must_have_rank_1")


def check_pairs(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns two [B] string as they are; unequal numbers fail when they are run."""
    source = check_texts(source, "source")
    target = check_texts(target, "target")
    same = tf.debugging.assert_equal(
        tf.shape(source),
        tf.shape(target),
        message="There must be as many targets as sources.",
    )
    with tf.control_dependencies([same] if same is not None else []):
        return tf.identity(source), tf.identity(target)


def check_option(value: Tensor, each: Tensor, name: str) -> Tensor:
    """Returns an option for each text, [B]; a scalar is for all.

    Args:
        value: Scalar or [B].
        each: [1] int32, B.
        name: Name of the option.
    """
    return tf.broadcast_to(value, each, name=f"{name}_must_be_one_or_one_for_each_text")


def check_ids(
    input_ids: Tensor, vocabulary_size: int, max_length: int
) -> tuple[Tensor, Tensor]:
    """Returns ids that a model can be given, and which rows were too long.

    A number that is no id becomes the unknown one. A row that is too long is cut and
    ended by EOS.

    Args:
        input_ids: [B, S] int32, padded with 0.
        vocabulary_size: V.
        max_length: Most tokens of a row, EOS counted.

    Returns:
        [B, S'] int32, S' from 1 to `max_length`, and [B] bool.
    """
    whole_BS = tf.ensure_shape(input_ids, [None, None], name="ids_must_have_rank_2")
    is_id_BS = (whole_BS >= 0) & (whole_BS < vocabulary_size)
    # An empty row, or none at all, has one position too.
    missing = tf.maximum(1 - tf.shape(whole_BS)[1], 0)
    clean_BS = tf.pad(tf.where(is_id_BS, whole_BS, UNK_ID), [[0, 0], [0, missing]])
    truncated_B = tf.reduce_any(clean_BS[:, max_length:] != PAD_ID, axis=1)
    kept_BS = clean_BS[:, :max_length]
    is_last_S = tf.range(tf.shape(kept_BS)[1]) == max_length - 1
    ends_BS = truncated_B[:, None] & is_last_S
    return tf.where(ends_BS, EOS_ID, kept_BS), truncated_B
