"""The types that join the packages.

Tensors are `Any`: neither Keras nor TensorFlow ships type information, so a
narrower name would promise a check that nobody makes. Shapes and dtypes stand
in docstrings and in the letters that end a local name:

    B batch, S source length, T target length, L either length, D model width,
    F inner width, H heads, K size per head, V vocabulary, W beam width.
"""

from typing import Any, NamedTuple, TypeAlias

Tensor: TypeAlias = Any
Batch: TypeAlias = dict[str, Tensor]


class BatchSize(NamedTuple):
    """How large a whole batch is, whoever has which of its rows.

    Attributes:
        rows: B.
        source_length: S, padding counted.
        target_length: T, padding counted.
        source_tokens: Of all rows, without padding.
        target_tokens: Of all rows, without padding.
    """

    rows: int
    source_length: int
    target_length: int
    source_tokens: int
    target_tokens: int

    @property
    def positions(self) -> int:
        """Of both sides, padding counted."""
        return self.rows * (self.source_length + self.target_length)
