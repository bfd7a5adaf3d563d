"""Files of a report: all of them or none."""

import pytest

from t2t_keras.reports.blocks import Details, Figure, Page, Paragraph
from t2t_keras.reports.rendering import (
    render_html,
    render_markdown,
    write_report,
)

PAGE = Page(
    "é",
    (
        Figure("a", "<svg>1</svg>", "one"),
        Details("more", (Paragraph("x"), Figure("b", "<svg>2</svg>", "two"))),
    ),
)


def test_every_drawing_that_the_markdown_names_is_there(tmp_path) -> None:
    html, markdown = write_report(PAGE, tmp_path / "new" / "folder", "r")
    assert html.read_text(encoding="utf-8") == render_html(PAGE)
    assert markdown.read_text(encoding="utf-8") == render_markdown(PAGE, "r")
    folder = html.parent
    assert {path.name for path in folder.iterdir()} == {
        "r.html",
        "r.md",
        "r-a.svg",
        "r-b.svg",
    }
    assert (folder / "r-b.svg").read_text() == "<svg>2</svg>"
    assert "(r-b.svg)" in markdown.read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_made_leaves_nothing(tmp_path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(OSError, match="file"):
        write_report(PAGE, tmp_path / "file", "r")
    assert (tmp_path / "file").read_text() == "here"
