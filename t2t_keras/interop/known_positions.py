"""Recognition of a table of positional encodings.

Shapes: L positions, D model width.
"""

import numpy as np

# Layouts of `SinusoidalPositionEncoding`, and first positions that programs use.
_LAYOUTS = ("interleaved", "halves", "halves_t2t")
_FIRST = (0, 1, 2)


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


def rounding(array: np.ndarray, least: float) -> float:
    """Returns how far numbers up to 1 may be rounded in an array's type.

    Args:
        array: As it is stored.
        least: The same of types of at least 32 bits.
    """
    return least if array.itemsize > 2 else 2**-8


def recognize(table: np.ndarray) -> tuple[str, int] | None:
    """Returns layout and first position of a table [L, D]; None if it is no sinusoid.

    Args:
        table: The positional encoding of each position, as it is stored. D is even.
    """
    exact, found = table.astype(np.float64), []
    for layout in _LAYOUTS:
        for first in _FIRST:
            expected = sinusoids(len(table), table.shape[1], layout, first)
            found.append((np.abs(exact - expected).max(), layout, first))
    difference, layout, first = min(found)
    return (layout, first) if difference < rounding(table, 1e-4) else None
