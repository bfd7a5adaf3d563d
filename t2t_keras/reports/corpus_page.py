"""Page about a corpus: what `prepare --report` writes, as text and as HTML."""

import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from t2t_keras.files.atomic import write_text
from t2t_keras.input_pipeline.corpora.fingerprints import shorten
from t2t_keras.reports.blocks import (
    Bar,
    Block,
    Heading,
    Page,
    Pair,
    Paragraph,
    Row,
    Table,
)
from t2t_keras.reports.plain_text import make_visible, render_text
from t2t_keras.runs.data.corpus_report import RATIOS, CorpusReport
from t2t_keras.runs.data.sampled_text import (
    DIGITS,
    OTHERS,
    PUNCTUATION,
    SPACES,
    SYMBOLS,
    Duplicates,
    Example,
)

TEXT_FILE, HTML_FILE = "report.txt", "report.html"
_NO_SCRIPTS = (DIGITS, PUNCTUATION, SYMBOLS, SPACES, OTHERS)
_MOST_NAMED = 3
_MOST_ROWS = 15
"""Of lengths, beside that of the longest."""
_MOST_IN_ROWS = 0.99
_QUANTILES = (0.5, 0.95, 0.99)


def write_corpus_report(report: CorpusReport, folder: Path, *, html: bool) -> str:
    """Writes a report into a folder and returns its text.

    Args:
        report: What is shown.
        folder: The folder.
        html: Whether to write HTML, too, which needs Jinja2. Otherwise an old file of
            it is removed.

    Raises:
        OSError: If a file cannot be written; no file is left half-written.
    """
    page = corpus_page(report)
    text = render_text(page)
    write_text(folder / TEXT_FILE, text)
    if html:
        # Not for the text, where Jinja2 may be missing.
        from t2t_keras.reports.rendering import render_html

        write_text(folder / HTML_FILE, render_html(page))
    else:
        (folder / HTML_FILE).unlink(missing_ok=True)
    return text


def corpus_page(report: CorpusReport) -> Page:
    """Returns the page about a corpus. Its text is cut and made visible."""
    settings = report.manifest.spec.settings
    sides = f"{settings['source_language']} to {settings['target_language']}"
    blocks: list[Block] = [
        Paragraph(_describe(report)),
        Heading("Lines"),
        _decisions(report),
        Heading("Lengths"),
        *_lengths(report),
        _ratios(report),
        Heading("Scripts"),
        *_scripts(report),
        Heading("Frequent pairs"),
        *_frequent(report.duplicates),
        *_examples(report),
    ]
    name = f"Corpus: {report.manifest.spec.corpus}, {sides}"
    return Page(make_visible(name), tuple(blocks))


def _describe(report: CorpusReport) -> str:
    spec = report.manifest.spec
    paths = [
        *(spec.settings.get("train_source") or ()),
        *(spec.settings.get("train_target") or ()),
    ]
    names = [make_visible(Path(path).name) for path in paths]
    more = len(names) - _MOST_NAMED
    files = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    tokens = report.manifest.report
    return (
        f"{spec.text_lines:,} lines{' of ' if files else ''}{files} (SHA-256 "
        f"{shorten(spec.text_sha256)}); {tokens.source_tokens:,} source and "
        f"{tokens.target_tokens:,} target tokens of {spec.vocabulary_size:,} subwords. "
        "Sources come first, then targets. Text has single spaces, as filters see it."
    )


def _decisions(report: CorpusReport) -> Table:
    total = sum(report.decisions.values())
    filters = set(report.manifest.filters)
    rows = tuple(
        Row((name, f"{count:,}", _share(count, total), Bar(count / total)))
        for name, count in report.decisions.items()
        if count or name in filters
    )
    caption = (
        f"What became of the {total:,} lines. A line counts for the first filter that "
        "rejects it."
    )
    return Table(caption, ("", "lines", "share", ""), rows)


def _lengths(report: CorpusReport) -> list[Block]:
    counts = report.lengths
    pairs = int(counts[0].sum())
    bounds = _length_bounds(counts)
    header = ("tokens", "source", "", "target", "")
    columns = [[int(side[low:high].sum()) for low, high in bounds] for side in counts]
    names = [
        f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"
        for low, high in bounds
    ]
    histogram = Table(
        "How many of them have so many tokens", header, _with_bars(names, columns)
    )
    title = ("", "mean", *(f"{100 * q:.0f} % up to" for q in _QUANTILES), "longest")
    rows = tuple(
        Row((name, *_summary(side)))
        for name, side in zip(("source", "target"), counts, strict=True)
    )
    caption = (
        f"Tokens of {_of_all(pairs, pairs, 'kept pair')}, end of sentence included, as "
        "--max_length has it"
    )
    return [Table(caption, title, rows), histogram]


def _length_bounds(counts: np.ndarray) -> list[tuple[int, int]]:
    """Returns the first length of each row, and that after its last one.

    Rows are equally wide up to a length that few sentences exceed.
    """
    longest = int(np.flatnonzero(counts.any(axis=0))[-1])
    most = max(_quantile(side, _MOST_IN_ROWS) for side in counts)
    width = next(
        step * 10**power
        for power in range(10)
        for step in (1, 2, 5)
        if step * 10**power * _MOST_ROWS >= most
    )
    # Rows end at multiples of the width.
    ends = [*range(width, most + width, width)]
    bounds = [(end - width + 1, end + 1) for end in ends]
    return bounds if longest <= ends[-1] else [*bounds, (ends[-1] + 1, longest + 1)]


def _quantile(counts: np.ndarray, share: float) -> int:
    """Returns the smallest length that so many sentences do not exceed."""
    sums = np.cumsum(counts)
    return int(np.searchsorted(sums, math.ceil(share * int(sums[-1]))))


def _summary(counts: np.ndarray) -> tuple[str, ...]:
    total = int(counts.sum())
    mean = int((counts * np.arange(len(counts))).sum()) / total
    quantiles = (f"{_quantile(counts, share):,}" for share in _QUANTILES)
    return (f"{mean:,.1f}", *quantiles, f"{int(np.flatnonzero(counts)[-1]):,}")


def _ratios(report: CorpusReport) -> Table:
    bounds = [str(bound) for bound in RATIOS]
    names = [
        f"below {bounds[0]}",
        *(f"{low} to {high}" for low, high in itertools.pairwise(bounds)),
        f"from {bounds[-1]}",
    ]
    caption = (
        "Target tokens for each source token of the same pairs, end of sentence aside; "
        "a ratio counts in the row that begins with it"
    )
    rows = _with_bars(names, [list(report.ratios)])
    return Table(caption, ("target / source", "pairs", ""), rows)


def _with_bars(
    names: Iterable[str], columns: Sequence[Sequence[int]]
) -> tuple[Row, ...]:
    """Returns rows with a bar beside each count, its share of the column's largest."""
    largest = [max(1, *column) for column in columns]
    rows = zip(names, *columns, strict=True)
    return tuple(
        Row(
            (
                name,
                *(
                    cell
                    for count, most in zip(counts, largest, strict=True)
                    for cell in (f"{count:,}", Bar(count / most))
                ),
            )
        )
        for name, *counts in rows
    )


def _scripts(report: CorpusReport) -> list[Block]:
    sides = report.scripts.source, report.scripts.target
    totals = [max(1, sum(side.values())) for side in sides]
    names = sorted(
        {*sides[0], *sides[1]},
        key=lambda name: (
            name in _NO_SCRIPTS,
            -sum(
                side.get(name, 0) / total
                for side, total in zip(sides, totals, strict=True)
            ),
            name,
        ),
    )
    rows = tuple(
        Row(
            (
                name,
                *(
                    _share(side.get(name, 0), total, 2)
                    for side, total in zip(sides, totals, strict=True)
                ),
            )
        )
        for name in names
    )
    counted, kept = report.scripts.pairs, report.decisions["kept"]
    caption = (
        f"Share of the characters in {_of_all(counted, kept, 'kept pair')}. Letters "
        "and marks count for the script that begins their name in Unicode."
    )
    return [Table(caption, ("", "source", "target"), rows)]


def _frequent(duplicates: Duplicates) -> list[Block]:
    is_sample = duplicates.counted < duplicates.lines
    what = "duplicate" if duplicates.are_decided else "kept pair"
    among = _of_all(duplicates.counted, duplicates.lines, what)
    if not duplicates.pairs:
        return [Paragraph(f"No pair occurs twice in {among}.")]
    text = f"The most frequent pairs, counted in {among}."
    if not duplicates.are_decided:
        text += (
            f" {duplicates.repeats:,} of them have occurred before in these; "
            "--filter=duplicates finds all."
        )
    if is_sample:
        factor = duplicates.lines / duplicates.counted
        text += (
            " The numbers are what this sample has: lower bounds. A pair from all over "
            f"the text occurs about {factor:,.2f} times as often."
        )
    mark = "at least " if is_sample else ""
    return [
        Paragraph(text),
        *(_pair(f"{mark}{times:,}", example) for times, example in duplicates.pairs),
    ]


def _examples(report: CorpusReport) -> list[Block]:
    """Returns pairs at random: those that are kept, then those left out."""
    (kept, random_pairs), *others = report.examples.items()
    blocks = [
        Heading("Random pairs"),
        *_numbered(random_pairs, report.decisions[kept], "kept pair"),
    ]
    left_out: list[Block] = []
    for name, examples in others:
        if examples:
            left_out.append(Heading(name, 3))
            left_out += _numbered(examples, report.decisions[name], "line")
    return [*blocks, Heading("Pairs left out"), *left_out] if left_out else blocks


def _numbered(examples: Sequence[Example], number: int, what: str) -> list[Block]:
    about = _of_all(len(examples), number, what)
    about += " at random" * (len(examples) < number)
    return [
        Paragraph(about[0].upper() + about[1:], quiet=True),
        *(_pair(f"line {example.line:,}", example) for example in examples),
    ]


def _pair(label: str, example: Example) -> Pair:
    return Pair(label, make_visible(example.source), make_visible(example.target))


def _of_all(counted: int, number: int, what: str) -> str:
    """Returns how many of a number of things are meant.

    >>> _of_all(1, 1, "line"), _of_all(7, 7, "line"), _of_all(1000, 2500, "line")
    ('the only line', 'all 7 lines', '1,000 of the 2,500 lines')
    """
    if counted < number:
        return f"{counted:,} of the {number:,} {what}s"
    return f"the only {what}" if number == 1 else f"all {number:,} {what}s"


def _share(count: int, total: int, digits: int = 1) -> str:
    """Returns a share in percent.

    >>> _share(1, 3), _share(1, 10**6), _share(0, 3)
    ('33.3%', '<0.1%', '0.0%')
    """
    smallest = 10.0**-digits
    if 0 < 100 * count < smallest * total:
        return f"<{smallest:.{digits}f}%"
    return f"{100 * count / total:.{digits}f}%"
