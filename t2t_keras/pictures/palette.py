"""Color palette of the heads, the same in every figure.

Middle lightness makes the colors visible on white and on black, and distinct for most
readers with limited color vision.
"""

COLORS = (
    "#1f78b4",
    "#e6820e",
    "#1d9a6c",
    "#d1495b",
    "#8a63c9",
    "#2bb3c0",
    "#b8860b",
    "#d65fa8",
    "#5b8c2a",
    "#8c6d5a",
    "#4d6fe0",
    "#c2571a",
    "#4aa96c",
    "#a63d78",
    "#7a7f8c",
    "#97a41f",
)


def head_color(head: int) -> str:
    """Returns the color of a head, counted from 0, as #rrggbb."""
    return COLORS[head % len(COLORS)]
