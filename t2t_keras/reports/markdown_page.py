"""A report as Markdown, with its drawings as files beside it."""

import re
from collections.abc import Iterable

from t2t_keras.reports.blocks import (
    Block,
    Cell,
    Command,
    Details,
    Figure,
    Heading,
    Missing,
    Page,
    Paragraph,
    Sample,
    Table,
)

# All that may mean something in Markdown, in HTML within it, or in a table.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
# At the start of a line only: lists and rules. "1." too, whose dot is what counts.
_AT_START = re.compile(r"^(\s*)(?:([-+=])|(\d+)([.)])(?=\s|$))")


def markdown_page(page: Page, stem: str) -> str:
    """Returns the report as Markdown.

    Args:
        page: The report.
        stem: What the names of its drawings begin with; see `figure_file`.
    """
    blocks = _all(page.blocks, stem)
    return f"# {escaped(page.title)}\n\n{blocks}\n"


def figure_file(figure: Figure, stem: str) -> str:
    """Returns the name of a drawing's file."""
    return f"{stem}-{figure.name}.svg"


def escaped(text: str) -> str:
    """Returns text in one line that Markdown shows as it is.

    >>> print(escaped("a|b *c* <i>"))
    a\\|b \\*c\\* \\<i\\>
    """
    text = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _AT_START.sub(lambda m: f"\\{m[2]}" if m[2] else f"{m[3]}\\{m[4]}", text)


def _all(blocks: Iterable[Block], stem: str) -> str:
    return "\n\n".join(_one(block, stem) for block in blocks)


def _one(block: Block, stem: str) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {escaped(text)}"
        case Paragraph(text, quiet):
            return f"_{escaped(text)}_" if quiet else escaped(text)
        case Command(text):
            return "\n".join(f"    {line}" for line in text.splitlines())
        case Table():
            return _table(block)
        case Figure(_, _, alt):
            return f"![{escaped(alt)}]({figure_file(block, stem)})"
        case Sample():
            return _sample(block)
        case Details(title, blocks):
            return f"**{escaped(title)}**\n\n{_all(blocks, stem)}"


def _table(table: Table) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    ruler = [
        ":---" if index < table.text_columns else "---:"
        for index in range(len(table.header))
    ]
    rows = [
        line(
            _strong(_cell(cell)) if row.ours and not index else _cell(cell)
            for index, cell in enumerate(row.cells)
        )
        for row in table.rows
    ]
    lines = [line(map(escaped, table.header)), line(ruler), *rows]
    return f"{escaped(table.caption)}\n\n" + "\n".join(lines)


def _strong(text: str) -> str:
    return f"**{text}**" if text else text


def _cell(cell: Cell) -> str:
    return f"_{escaped(cell.why)}_" if isinstance(cell, Missing) else escaped(cell)


def _sample(sample: Sample) -> str:
    lines = [
        f"- {name}: {escaped(text)}"
        for name, text in (
            ("source", sample.source),
            ("translation", sample.translation),
            ("reference", sample.reference),
        )
        if text is not None
    ]
    return "\n".join(lines)
