"""Report with every kind of block, and hostile texts for it."""

from t2t_keras.reports.blocks import (
    Bar,
    Block,
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

HOSTILE = (
    "<script>alert(1)</script>",
    "</td></tr></table><img src=x onerror=alert(2)>",
    "a|b | c",
    "*bold* _under_ `code` [link](javascript:alert(3)) ~~gone~~ $x$",
    "# heading",
    "- item",
    "1. first",
    "&lt;already&gt; & \"quoted\" 'single'",
    "two\nlines\r\nand\ttabs",
    "\\| and \\",
    "![picture](http://example.org/x.png)",
    "",
)


def build_blocks(text: str) -> tuple[Block, ...]:
    """Every kind of block, with `text` in every field."""
    return (
        Heading(text),
        Heading(text, 3),
        Paragraph(text),
        Paragraph(text, quiet=True),
        Command(text),
        Table(
            text,
            (text, "value"),
            (Row((text, Missing(text))), Row((text, text), ours=True)),
        ),
        Figure("drawing", f"<svg><text>{len(text)}</text></svg>", text),
        Sample(text, text, text),
        Sample(None, None, text),
        Pair(text, text, text),
        Table(text, (text, "", ""), (Row((text, Bar(0.5), Bar(0.0))),)),
        Details(text, (Paragraph(text),)),
    )


def build_page(text: str) -> Page:
    """Page of all kinds of blocks."""
    return Page(text, build_blocks(text))
