"""The shape of a batch, as (rows, source length, target length)."""

from collections.abc import Collection
from typing import TypeAlias

from t2t_keras.typing import Batch

Shape: TypeAlias = tuple[int, int, int]


def shape_of(batch: Batch) -> Shape:
    """Returns (rows, source length, target length)."""
    rows, source_length = batch["encoder_input_tokens"].shape
    return rows, source_length, batch["decoder_target_tokens"].shape[1]


def check_compiled(batch: Batch, compiled: Collection[Shape] | None, use: str) -> None:
    """Refuses a batch that a program would have to be compiled for.

    Args:
        batch: Features [B, L].
        compiled: The shapes that there are programs for; None where none is needed.
        use: What the batch is for, as "to train on".

    Raises:
        ValueError: If its shape is another.
    """
    shape = shape_of(batch)
    if compiled is not None and shape not in compiled:
        raise ValueError(
            f"A batch {use} must be of one of the shapes {sorted(compiled)}, which "
            f"were compiled before training. Received: {shape}"
        )
