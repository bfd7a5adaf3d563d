"""A report as one HTML file that needs no other file and no network."""

import base64
from collections.abc import Iterable
from html import escape

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
    Row,
    Sample,
    Table,
)

_STYLE = """
:root { --ink: #1d1f21; --quiet: #6a6f75; --line: #d8dadd; --ours: #eef4fa; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 3rem 1.25rem 5rem; max-width: 50rem; color: var(--ink);
  background: #fff; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans",
  sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 1.5rem; font-weight: 600; }
h2 { font-size: 1.25rem; margin: 3.25rem 0 .75rem; padding-top: 1rem; font-weight: 600;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 2rem 0 .5rem; font-weight: 600; }
p { margin: .6rem 0; }
p.quiet, caption, summary { color: var(--quiet); font-size: .875rem;
  line-height: 1.45; }
nav { columns: 2; font-size: .9375rem; } nav a { color: inherit; display: block;
  text-decoration: none; padding: .1rem 0; } nav a:hover { text-decoration: underline; }
.scroll { overflow-x: auto; margin: 1rem 0 1.25rem; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; line-height: 1.4;
  font-variant-numeric: tabular-nums; border-bottom: 1.5px solid var(--ink); }
caption { text-align: left; padding: 0 0 .5rem; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; vertical-align: baseline; }
th { font-weight: 600; vertical-align: bottom; border-top: 1.5px solid var(--ink);
  border-bottom: 1px solid var(--ink); }
td { border-bottom: 1px solid #eceef0; white-space: nowrap; }
.word { text-align: left; } td.word { white-space: normal; }
:is(th, td):last-child { padding-right: .4rem; }
:is(th, td):first-child { padding-left: .4rem; }
tr.ours td { background: var(--ours); }
.missing { color: #8a8f95; font-style: italic; }
pre { background: #f5f6f7; padding: .6rem .8rem; overflow-x: auto; font-size: .8125rem;
  line-height: 1.45; border-radius: 4px; margin: .75rem 0;
  font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
figure { margin: 1.25rem 0; } img { width: 100%; height: auto; display: block; }
blockquote { margin: 0 0 1rem; padding-left: .9rem;
  border-left: 3px solid var(--line); }
blockquote p { margin: .1rem 0; } .said { font-weight: 500; }
blockquote p { display: flex; align-items: baseline; }
.of { color: var(--quiet); font-size: .75rem; flex: 0 0 5.5rem; }
details { margin: 1rem 0; } summary { cursor: pointer; }
@media (max-width: 36rem) { body { padding: 1.5rem 1rem 3rem; } nav { columns: 1; }
  th, td { padding-right: .6rem; } blockquote p { display: block; }
  .of { display: block; } }
@media print { body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav, summary { display: none; } .scroll { overflow: visible; }
  h2, h3, caption { break-after: avoid; }
  tr, figure, blockquote { break-inside: avoid; }
  pre { white-space: pre-wrap; } * { print-color-adjust: exact; } }
"""


def html_page(page: Page) -> str:
    """Returns the report as HTML."""
    title = escape(page.title)
    sections = [b for b in page.blocks if isinstance(b, Heading) and b.level == 2]
    links = "".join(
        f'<a href="#{anchor(each)}">{escape(each.text)}</a>' for each in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n<nav>{links}</nav>\n{_all(page.blocks)}\n</body>\n</html>\n"
    )


def anchor(heading: Heading) -> str:
    """Returns the name that links to a heading use: its letters and digits."""
    words = "".join(c if c.isalnum() else " " for c in heading.text.lower()).split()
    return "-".join(words)


def _all(blocks: Iterable[Block]) -> str:
    return "\n".join(map(_one, blocks))


def _one(block: Block) -> str:
    match block:
        case Heading(text, level):
            tag = f"h{level}"
            return f'<{tag} id="{escape(anchor(block))}">{escape(text)}</{tag}>'
        case Paragraph(text, quiet):
            start = '<p class="quiet">' if quiet else "<p>"
            return f"{start}{escape(text)}</p>"
        case Command(text):
            return f"<pre>{escape(text)}</pre>"
        case Table():
            return _table(block)
        case Figure(_, svg, alt):
            # As an image: what a drawing defines stays in it.
            data = base64.b64encode(svg.encode()).decode()
            source = f"data:image/svg+xml;base64,{data}"
            return f'<figure><img src="{source}" alt="{escape(alt)}"></figure>'
        case Sample():
            return _sample(block)
        case Details(title, blocks):
            return (
                f"<details><summary>{escape(title)}</summary>\n{_all(blocks)}\n"
                "</details>"
            )


def _table(table: Table) -> str:
    def cells(tag: str, values: Iterable[Cell]) -> str:
        return "".join(
            f"<{tag}{_class(index < table.text_columns, value)}>{_text(value)}</{tag}>"
            for index, value in enumerate(values)
        )

    def line(row: Row) -> str:
        start = '<tr class="ours">' if row.ours else "<tr>"
        return f"{start}{cells('td', row.cells)}</tr>"

    rows = "\n".join(map(line, table.rows))
    return (
        f'<div class="scroll"><table>\n<caption>{escape(table.caption)}</caption>\n'
        f"<thead><tr>{cells('th', table.header)}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _class(word: bool, value: Cell) -> str:
    names = [
        name
        for name, holds in (("word", word), ("missing", isinstance(value, Missing)))
        if holds
    ]
    return f' class="{" ".join(names)}"' if names else ""


def _text(value: Cell) -> str:
    return escape(value.why if isinstance(value, Missing) else value)


def _sample(sample: Sample) -> str:
    lines = [
        f'<p{css}><span class="of">{name}</span> <span>{escape(text)}</span></p>'
        for name, text, css in (
            ("source", sample.source, ""),
            ("translation", sample.translation, ' class="said"'),
            ("reference", sample.reference, ""),
        )
        if text is not None
    ]
    return f"<blockquote>{''.join(lines)}</blockquote>"
