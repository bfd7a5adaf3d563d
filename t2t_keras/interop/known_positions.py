"""Recognition of a table of positional encodings.

Shapes: L positions, D model width.
"""

import numpy as np

# Layouts of `SinusoidalPositionEncoding`, and first positions that programs use.
_LAYOUTS = ("interleaved", "halves", "halves_t2t")
_FIRST = (0, 1, 2)
_TOLERANCE = 1e-4


def sinusoids(length: int, width: int, layout: str, first: int = 0) -> np.ndarray:
    """Returns the sinusoids of a layout, [L, D] float64.

    Args:
        length: L.
        width: D.
        layout: As in `SinusoidalPositionEncoding`.
        first: Number of the first position.
    """
    half = width // 2
    divisor = max(1, half - 1) if layout == "halves_t2t" else half
    angles = np.arange(first, first + length)[:, None] * (
        10_000.0 ** -(np.arange(half) / divisor)
    )
    parts = np.sin(angles), np.cos(angles)
    if layout == "interleaved":
        return np.stack(parts, axis=-1).reshape(length, width)
    return np.concatenate(parts, axis=1)


def recognize(table: np.ndarray) -> tuple[str, int] | None:
    """Returns layout and first position of a table [L, D]; None if it is no sinusoid.

    Args:
        table: The positional encoding of each position. D is even.
    """
    for layout in _LAYOUTS:
        for first in _FIRST:
            expected = sinusoids(len(table), table.shape[1], layout, first)
            if np.abs(table - expected).max() < _TOLERANCE:
                return layout, first
    return None
