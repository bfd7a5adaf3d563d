"""A report with everything that a page can hold, in hostile words."""

from t2t_keras.reports.blocks import (
    Block,
    Command,
    Details,
    Figure,
    Heading,
    Missing,
    Page,
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
    """Every kind of block, holding a text wherever it can."""
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
        Details(text, (Paragraph(text),)),
    )


def build_page(text: str) -> Page:
    """A page of them."""
    return Page(text, build_blocks(text))
