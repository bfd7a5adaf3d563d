"""Head colors: distinct from each other, with enough contrast."""

import itertools

from matplotlib.colors import to_rgb

from t2t_keras.attention.palette import COLORS, head_color


def luminance(color: str) -> float:
    """Returns the relative luminance of WCAG 2.1."""
    parts = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in to_rgb(color)
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_sixteen_heads_have_different_colors_which_then_repeat() -> None:
    assert len({head_color(head) for head in range(16)}) == 16
    assert [head_color(head) for head in range(16, 32)] == list(COLORS)


def test_colors_have_contrast_on_white_and_on_black() -> None:
    for color in COLORS:
        assert 1.05 / (luminance(color) + 0.05) > 2.3, color
        assert (luminance(color) + 0.05) / 0.05 > 2.3, color


def test_no_two_colors_are_nearly_equal() -> None:
    for one, other in itertools.combinations(map(to_rgb, COLORS), 2):
        assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 0.12
