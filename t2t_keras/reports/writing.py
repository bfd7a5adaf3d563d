"""Writes a report: HTML, Markdown, and the drawings that the latter shows."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from t2t_keras.files.atomic import write_text
from t2t_keras.reports.blocks import Block, Details, Figure, Page
from t2t_keras.reports.html_page import html_page
from t2t_keras.reports.markdown_page import figure_file, markdown_page


def write_report(page: Page, folder: Path, stem: str) -> tuple[Path, Path]:
    """Writes a report and returns where its HTML and its Markdown are.

    Args:
        page: The report.
        folder: Where it goes; made if it is not there.
        stem: What the names of all its files begin with.

    Raises:
        OSError: If a file cannot be written; no file is left half-written.
    """
    for figure in _figures(page.blocks):
        write_text(folder / figure_file(figure, stem), figure.svg)
    html, markdown = folder / f"{stem}.html", folder / f"{stem}.md"
    write_text(markdown, markdown_page(page, stem))
    write_text(html, html_page(page))
    return html, markdown


def _figures(blocks: Iterable[Block]) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Details):
            yield from _figures(block.blocks)
