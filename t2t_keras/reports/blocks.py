"""Content tree of a report, independent of the format it is written in.

All texts are plain: a page escapes them for its own language.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Missing(NamedTuple):
    """A missing figure, and the text to show in its place."""

    why: str = "not run"


class Bar(NamedTuple):
    """A bar as long as a share, from 0 to 1, of its column."""

    share: float

    def characters(self, width: int) -> str:
        """Returns the bar as text, at most so many characters wide.

        >>> Bar(0.5).characters(6), Bar(0.001).characters(6), Bar(0.0).characters(6)
        ('███', '▏', '')
        """
        return "█" * round(self.share * width) or ("▏" if self.share else "")


Cell: TypeAlias = "str | Missing | Bar"


class Row(NamedTuple):
    """A row of a table; `ours` sets it apart from what others published."""

    cells: tuple[Cell, ...]
    ours: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 for a section, 3 for a part of one."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; a quiet one is a note in small print."""

    text: str
    quiet: bool = False


@dataclass(frozen=True)
class Command:
    """A command line to copy."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: Caption above the table.
        header: Title of each column.
        rows: Rows, each with one cell a column.
        text_columns: Number of columns with words, from the left; the rest are figures.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    text_columns: int = 1

    def __post_init__(self):
        for row in self.rows:
            if len(row.cells) != len(self.header):
                raise ValueError(
                    f"Each row needs {len(self.header)} cells. Received: {row.cells}"
                )


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes:
        name: Letters, digits and dashes: part of a file name.
        svg: The drawing.
        alt: Description for readers who cannot see it.
    """

    name: str
    svg: str
    alt: str


@dataclass(frozen=True)
class Sample:
    """A sample translation.

    Attributes:
        source: The sentence; None if it is not available.
        reference: Its reference translation; None if it is not available.
        translation: Its translation by the model.
    """

    source: str | None
    reference: str | None
    translation: str

    @property
    def lines(self) -> list[tuple[str, str]]:
        """(name, text) of the available texts, in the order of a page."""
        texts = {
            "source": self.source,
            "translation": self.translation,
            "reference": self.reference,
        }
        return [(name, text) for name, text in texts.items() if text is not None]


@dataclass(frozen=True)
class Pair:
    """A pair of sentences of a corpus, with what tells it from others."""

    label: str
    source: str
    target: str

    @property
    def lines(self) -> list[tuple[str, str]]:
        """(name, text) of both sides; only the first has a name."""
        return [(self.label, self.source), ("", self.target)]


@dataclass(frozen=True)
class Details:
    """A section of details, collapsed at first where the format allows it."""

    title: str
    blocks: "tuple[Block, ...]"


Block: TypeAlias = (
    "Heading | Paragraph | Command | Table | Figure | Sample | Pair | Details"
)


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    blocks: tuple[Block, ...]
