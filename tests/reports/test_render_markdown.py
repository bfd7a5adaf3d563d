"""Markdown renderer: escapes texts and keeps each in one line."""

import re

from t2t_keras.reports.blocks import Missing, Page, Row, Table
from t2t_keras.reports.rendering import (
    escape_markdown,
    render_markdown,
)
from tests.reports.pages import HOSTILE, build_page


def test_an_escaped_text_reads_back_and_means_nothing() -> None:
    for text in HOSTILE:
        shown = escape_markdown(text)
        # CommonMark: a backslash before punctuation is not shown.
        read = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", shown)
        assert read == " ".join(text.split()), text
        bare = re.sub(r"\\.", "", shown)
        assert not re.search(r"[`*_\[\]<>#|~$&\\]", bare), text
        assert not re.match(r"\s*([-+=]|\d+[.)](\s|$))", shown), text


def test_a_table_keeps_its_columns() -> None:
    for text in HOSTILE:
        table = Table("c", (text, "b"), (Row((text, Missing(text))), Row(("x", text))))
        lines = render_markdown(Page("t", (table,)), "r").splitlines()
        rows = [line for line in lines if line.startswith("|")]
        assert len(rows) == 4, text
        marks = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows}
        assert marks == {3}, text


def test_a_page_has_the_lines_of_a_harmless_one() -> None:
    def kinds(words: str) -> list[str]:
        lines = render_markdown(build_page(words), "r").splitlines()
        # A command is indented, so that each line is shown without escaping.
        return [line[:1] for line in lines if not line.startswith("    ")]

    # "!" is one with a bracket after it, and that is escaped.
    marks = set("#|-*_")
    harmless = kinds("word")
    for text in filter(None, HOSTILE):
        # A paragraph of the text begins as it does, escaped.
        ours = kinds(text)
        assert len(ours) == len(harmless), text
        marked = [kind for kind in ours if kind in marks]
        assert marked == [kind for kind in harmless if kind in marks], text
