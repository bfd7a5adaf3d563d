"""Plain text of reports: what HTML shows, for a terminal; and texts made visible."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from t2t_keras.reports.blocks import (
    Bar,
    Block,
    Cell,
    Command,
    Details,
    Figure,
    Heading,
    Missing,
    Page,
    Pair,
    Paragraph,
    Sample,
    Table,
)

_WIDTH = 88
_BAR_WIDTH = 20
_LONGEST = 300
# Joiners, which Indic and Persian words, and emojis, need.
_NEEDED = "\u200c\u200d"
_UNDERLINES = {1: "=", 2: "-", 3: ""}
_WORD = re.compile(r"\S+")


def make_visible(text: str, longest: int = _LONGEST) -> str:
    """Returns text of a stranger so that it can be shown: cut, and without effects.

    Control characters, which move a terminal's cursor, and those that turn the
    direction of others or have no shape are shown by their numbers.

    >>> print(make_visible("a\\x1b[2J\\u202eb\\xad"), make_visible("abcdef", 4))
    a\\x1b[2J\\u202eb\\xad abcd… (2 more characters)
    """
    shown = "".join(map(_visible, text[:longest]))
    left = len(text) - longest
    return f"{shown}… ({left:,} more characters)" if left > 0 else shown


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if character in _NEEDED or not (category[0] == "C" or category in ("Zl", "Zp")):
        return character
    return character.encode("unicode_escape").decode()


def render_text(page: Page) -> str:
    """Returns the report as text, without its drawings."""
    lines = [*_heading(Heading(page.title, 1)), *_lines(page.blocks)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _lines(blocks: Iterable[Block]) -> Iterator[str]:
    was_pair = False
    for block in blocks:
        is_pair = isinstance(block, Pair | Sample)
        if not isinstance(block, Figure) and not (is_pair and was_pair):
            yield ""
        was_pair = is_pair
        yield from _lines_of(block)


def _lines_of(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield from _heading(block)
    elif isinstance(block, Paragraph):
        yield from _wrap(block.text)
    elif isinstance(block, Command):
        yield from (f"    {line}" for line in block.text.splitlines())
    elif isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Pair | Sample):
        width = max(12, *(len(name) for name, _ in block.lines))
        for name, text in block.lines:
            yield f"{_one_line(name):>{width}}  {_one_line(text)}"
    elif isinstance(block, Details):
        yield _one_line(block.title)
        yield from _lines(block.blocks)


def _heading(heading: Heading) -> Iterator[str]:
    text = _one_line(heading.text)
    yield text
    if line := _UNDERLINES[heading.level]:
        yield line * len(text)


def _wrap(text: str) -> Iterator[str]:
    line = ""
    for word in _WORD.findall(text):
        if line and len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


def _table(table: Table) -> Iterator[str]:
    yield from _wrap(table.caption)
    rows = [[_cell(cell) for cell in row] for row in (table.header, *_cells(table))]
    kinds = [*zip(*_cells(table), strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        aligned = (
            f"{cell:<{width}}"
            if place < table.text_columns or _is_bar(kinds, place)
            else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  " + "  ".join(aligned)


def _cells(table: Table) -> list[tuple[Cell, ...]]:
    return [row.cells for row in table.rows]


def _is_bar(columns: list[tuple[Cell, ...]], place: int) -> bool:
    return bool(columns) and any(isinstance(cell, Bar) for cell in columns[place])


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return cell.characters(_BAR_WIDTH)
    return _one_line(cell.why if isinstance(cell, Missing) else cell)


def _one_line(text: str) -> str:
    return " ".join(text.split())
