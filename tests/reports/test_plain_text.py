"""Reports as plain text: aligned, in one line each, and without effects."""

import unicodedata

from t2t_keras.reports.blocks import (
    Bar,
    Command,
    Details,
    Figure,
    Heading,
    Missing,
    Page,
    Pair,
    Paragraph,
    Row,
    Sample,
    Table,
)
from t2t_keras.reports.plain_text import make_visible, render_text
from tests.reports.pages import HOSTILE, build_page


def test_every_kind_of_block_is_shown() -> None:
    rows = (Row(("one", "1,000", Bar(1.0))), Row(("eleven", Missing("none"), Bar(0.0))))
    long = "word " * 30
    page = Page(
        "A title",
        (
            Paragraph(long),
            Heading("Section"),
            Table("caption", ("", "count", ""), rows),
            Heading("Part", 3),
            Pair("line 17", "a", "b"),
            Pair("line 1,234,567", "c", "d"),
            Sample(None, "r", "t"),
            Command("one\ntwo"),
            Figure("name", "<svg></svg>", "alt"),
            Details("more", (Paragraph("inside"),)),
        ),
    )
    assert render_text(page).splitlines() == [
        "A title",
        "=======",
        "",
        " ".join(["word"] * 17),
        " ".join(["word"] * 13),
        "",
        "Section",
        "-------",
        "",
        "caption",
        "          count",
        f"  one     1,000  {'█' * 20}",
        "  eleven   none",
        "",
        "Part",
        "",
        "     line 17  a",
        "              b",
        "line 1,234,567  c",
        "                d",
        " translation  t",
        "   reference  r",
        "",
        "    one",
        "    two",
        "",
        "more",
        "",
        "inside",
    ]


def test_a_text_of_strangers_stays_in_its_line() -> None:
    harmless = render_text(build_page("word")).splitlines()
    for text in filter(None, HOSTILE):
        shown = render_text(build_page(text)).splitlines()
        # A command has its own lines.
        more = len(text.splitlines()) - 1
        assert len(shown) == len(harmless) + more, text


def test_texts_that_would_have_effects_are_made_visible() -> None:
    hostile = "a\x1b[2J\x00\x07\x9b31m\u202egnp.exe\u2066\u200f\ufeff\xad\ue000\u2028z"
    shown = make_visible(hostile)
    assert all(unicodedata.category(c)[0] != "C" for c in shown)
    assert shown == (
        r"a\x1b[2J\x00\x07\x9b31m\u202egnp.exe\u2066\u200f\ufeff\xad\ue000\u2028z"
    )
    for text in (
        "Straße «é» 中文 ひらがな",
        "\u0645\u06cc\u200c\u062e",
        "👩\u200d👧",
        "e\u0301",
        "",
    ):
        assert make_visible(text) == text


def test_a_long_text_is_cut_with_a_mark() -> None:
    assert make_visible("x" * 300) == "x" * 300
    assert make_visible("x" * 5_301) == "x" * 300 + "… (5,001 more characters)"
    # What is cut counts as characters of the text, not as they are shown.
    assert make_visible("\0" * 6, longest=2) == r"\x00\x00… (4 more characters)"
