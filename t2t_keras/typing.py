"""Types that all packages share.

Tensors are `Any`: neither Keras nor TensorFlow ships type information, so a
narrower type would promise a check that no tool makes. Shapes and dtypes are
in docstrings and in the letters that end a local name:

    B batch, S source length, T target length, L either length, D model width,
    F inner width, H heads, K size per head, V vocabulary, W beam width.
"""

from typing import Any, NamedTuple, TypeAlias

Tensor: TypeAlias = Any
Batch: TypeAlias = dict[str, Tensor]


# Names and dtypes of a batch's features: ADR 0002, checked by
# `input_pipeline.batches.batching`.

ENCODER_INPUT_TOKENS = "encoder_input_tokens"
DECODER_INPUT_TOKENS = "decoder_input_tokens"
DECODER_TARGET_TOKENS = "decoder_target_tokens"
DECODER_LOSS_WEIGHTS = "decoder_loss_weights"

ENCODER_SEGMENT_IDS = "encoder_segment_ids"
ENCODER_POSITIONS = "encoder_positions"
DECODER_SEGMENT_IDS = "decoder_segment_ids"
DECODER_POSITIONS = "decoder_positions"

ALIGNMENT = "alignment"
"""Feature [B, T, S] uint8 of guided alignment, 1 at links between tokens."""

FEATURE_DTYPES: tuple[tuple[str, str], ...] = (
    (ENCODER_INPUT_TOKENS, "int32"),
    (DECODER_INPUT_TOKENS, "int32"),
    (DECODER_TARGET_TOKENS, "int32"),
    (DECODER_LOSS_WEIGHTS, "float32"),
)
PACKED_FEATURE_DTYPES: tuple[tuple[str, str], ...] = (
    *FEATURE_DTYPES,
    (ENCODER_SEGMENT_IDS, "int32"),
    (ENCODER_POSITIONS, "int32"),
    (DECODER_SEGMENT_IDS, "int32"),
    (DECODER_POSITIONS, "int32"),
)


class BatchShape(NamedTuple):
    """Shape of a batch: [rows, source_bound] and [rows, target_bound]."""

    rows: int
    source_bound: int
    target_bound: int

    @property
    def positions(self) -> int:
        """Number of positions of a row, both sides together."""
        return self.source_bound + self.target_bound

    def holds(self, other: "BatchShape") -> bool:
        """Returns whether every pair that fits `other` fits here."""
        return (
            self.source_bound >= other.source_bound
            and self.target_bound >= other.target_bound
        )


class BatchSize(NamedTuple):
    """Size of a whole batch, over all processes.

    Attributes:
        shape: Shape of the batch, including padding.
        source_tokens: Number of source tokens in all rows, without padding.
        target_tokens: Number of target tokens in all rows, without padding.
    """

    shape: BatchShape
    source_tokens: int
    target_tokens: int

    @property
    def positions(self) -> int:
        """Number of positions of all rows, both sides together, including padding."""
        return self.shape.rows * self.shape.positions
