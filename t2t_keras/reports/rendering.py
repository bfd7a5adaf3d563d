"""HTML and Markdown renderer of reports: Jinja2 templates over the content tree."""

import base64
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from t2t_keras.files.atomic import write_text
from t2t_keras.reports.blocks import Bar, Block, Details, Figure, Missing, Page

# Characters with a meaning in Markdown, in HTML within it, or in a table.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
# Lists and rules, at the start of a line only. In "1." it is the dot that counts.
_AT_START = re.compile(r"^(\s*)(?:([-+=])|(\d+)([.)])(?=\s|$))")


def write_report(page: Page, folder: Path, stem: str) -> tuple[Path, Path]:
    """Writes a report into a folder, made if missing; returns its HTML and Markdown.

    Raises:
        OSError: If a file cannot be written; no file is left half-written.
    """
    for figure in _figures(page.blocks):
        write_text(folder / figure_file(figure, stem), figure.svg)
    html, markdown = folder / f"{stem}.html", folder / f"{stem}.md"
    write_text(markdown, render_markdown(page, stem))
    write_text(html, render_html(page))
    return html, markdown


def render_html(page: Page) -> str:
    """Returns the report as one HTML file that needs no other file and no network."""
    return _environment().get_template("page.html.j2").render(page=page)


def render_markdown(page: Page, stem: str) -> str:
    """Returns the report as Markdown, with drawings in the files of `figure_file`."""
    return _environment().get_template("page.md.j2").render(page=page, stem=stem)


def figure_file(figure: Figure, stem: str) -> str:
    """Returns the name of a drawing's file."""
    return f"{stem}-{figure.name}.svg"


def anchor(text: str) -> str:
    """Returns the id of a heading: its letters and digits, with dashes between words.

    >>> anchor("Table 1: layer types")
    'table-1-layer-types'
    """
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def escape_markdown(text: str) -> str:
    """Returns text in one line that Markdown shows as it is.

    >>> print(escape_markdown("a|b *c* <i>"))
    a\\|b \\*c\\* \\<i\\>
    """
    text = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _AT_START.sub(lambda m: f"\\{m[2]}" if m[2] else f"{m[3]}\\{m[4]}", text)


def _environment() -> Any:
    """Returns the environment of the templates, an `Environment` of Jinja2."""
    # Not for `prepare`, which needs it only for HTML.
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("t2t_keras.reports"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "anchor": anchor,
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
        "figure_file": figure_file,
        "kind": lambda block: type(block).__name__,
        "md": escape_markdown,
    }
    environment.tests["missing"] = lambda cell: isinstance(cell, Missing)
    environment.tests["bar"] = lambda cell: isinstance(cell, Bar)
    return environment


def _figures(blocks: Iterable[Block]) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Details):
            yield from _figures(block.blocks)
