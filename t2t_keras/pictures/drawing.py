"""Shared parts of the figures: literal text, and files written atomically.

Neither this module nor the figures use pyplot: a figure belongs to the caller, and a
notebook keeps its own settings.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_file, explain

# Tried in this order for letters that matplotlib's own font does not have.
_FONTS = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Symbola",
)
LONGEST_LABEL = 24
GRAY = "#8a8f98"


def label(token: str) -> str:
    """Returns a token as a label of a figure, shortened if it is very long."""
    if len(token) <= LONGEST_LABEL:
        return token
    return token[: LONGEST_LABEL - 1] + "…"


def text_settings() -> dict[str, Any]:
    """Returns matplotlib's text settings for tokens.

    A dollar never starts a formula, and each letter comes from the first font that
    has it.
    """
    known = set(font_manager.fontManager.get_font_names())
    families = ["DejaVu Sans", *(name for name in _FONTS if name in known)]
    return {"parse_math": False, "fontfamily": families}


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a figure atomically in the format of the ending, .svg, .png or .pdf.

    An SVG keeps its text as text: small, searchable, and drawn with the reader's
    fonts. The same figure always gives the same file.

    Raises:
        UserError: If it cannot be written.
    """
    figure_format = path.suffix.removeprefix(".")
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "t2t_keras"}
    # Without a date, which would make every file different.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(figure_format)
    try:
        with (
            atomic_file(path) as file,
            matplotlib.rc_context(settings),
            warnings.catch_warnings(),
        ):
            # A letter that no font has is drawn as a box, without a warning.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.savefig(
                file, format=figure_format, bbox_inches="tight", metadata=metadata
            )
    except OSError as error:
        raise UserError(explain(error, "written")) from error


def check_layer(layer: int, layers: int) -> None:
    """Raises `UserError` unless there is such a layer, counted from 1."""
    if not 1 <= layer <= layers:
        raise UserError(
            f"There is no layer {layer}: the model has {layers}, counted from 1."
        )


def check_heads(heads: Sequence[int], of: int) -> None:
    """Raises `UserError` unless there are such heads, counted from 1."""
    wrong = [head for head in heads if not 1 <= head <= of]
    if wrong or not heads:
        named = f"There is no head {wrong[0]}" if wrong else "No head is chosen"
        raise UserError(f"{named}: a layer has {of}, counted from 1.")
