"""HTML renderer: escapes texts, needs no other files, closes all tags."""

import re
from html.parser import HTMLParser

from t2t_keras.reports.blocks import Bar, Page, Row, Table
from t2t_keras.reports.rendering import render_html
from tests.reports.pages import HOSTILE, build_page

VOID = frozenset({"meta", "img"})


class Reader(HTMLParser):
    """Parser that collects tags, attributes and text, and checks that tags close."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_a_hostile_text_is_shown_and_does_nothing() -> None:
    harmless = Reader(render_html(build_page("word")))
    for text in HOSTILE:
        read = Reader(render_html(build_page(text)))
        # The same tags as for a harmless text, and the text itself.
        assert read.tags == harmless.tags, text
        names = [name for name, _ in read.attributes]
        assert names == [name for name, _ in harmless.attributes], text
        assert not any(name.startswith("on") for name in names), text
        if text.strip():
            shown = "".join(read.texts).replace("\r\n", "\n")
            # In headings, paragraphs, cells, samples and the link to a heading.
            assert shown.count(text.replace("\r\n", "\n")) >= 15, text


def test_a_bar_is_as_long_as_its_share_and_none_is_drawn_for_nothing() -> None:
    shares = (1.0, 0.25, 0.00001, 0.0)
    table = Table("c", ("", ""), tuple(Row((f"{x}", Bar(x))) for x in shares))
    html = render_html(Page("t", (table,)))
    assert re.findall(r'<td class="bar">(.*?)</td>', html) == [
        '<span style="width: 100.0%"></span>',
        '<span style="width: 25.0%"></span>',
        '<span style="width: 0.0%"></span>',  # as wide as a pixel
        "",
    ]


def test_no_other_file_and_no_network_is_needed() -> None:
    read = Reader(render_html(build_page("http://example.org/x.css")))
    for name, value in read.attributes:
        if name in ("src", "href"):
            assert value and value.startswith(("data:image/svg+xml;base64,", "#"))
    assert not {"script", "link", "iframe", "object", "base"} & set(read.tags)
    style = re.search(r"<style>(.*?)</style>", render_html(build_page("x")), re.DOTALL)
    assert style and not re.search(r"url\(|@import", style[1])
