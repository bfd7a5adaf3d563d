"""Page about a corpus: hostile text does nothing, and all is said that is a sample."""

import dataclasses
import re
import unicodedata

import numpy as np
import pytest

from t2t_keras.input_pipeline.records.manifest import Manifest, RecordSpec
from t2t_keras.input_pipeline.records.tokenized import TokenizationReport
from t2t_keras.reports.blocks import Table
from t2t_keras.reports.corpus_page import corpus_page, write_corpus_report
from t2t_keras.reports.plain_text import render_text
from t2t_keras.reports.rendering import render_html
from t2t_keras.runs.data.corpus_report import RATIOS, CorpusReport
from t2t_keras.runs.data.sampled_text import Duplicates, Example, Scripts
from tests.reports.pages import HOSTILE
from tests.reports.test_render_html import Reader

STRANGE = (
    *filter(None, HOSTILE),
    '"><img src=x onerror=alert(1)>',
    "</span></p></blockquote></body></html>",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe",
    "سلام دنیا",
    "x" * 100_000,
)


def lengths_of(*sides, longest=100):
    """Returns counts of lengths, given all lengths of each side."""
    return np.stack([np.bincount(side, minlength=longest + 1) for side in sides])


@pytest.fixture
def report():
    spec = RecordSpec(
        settings={
            "source_language": "en",
            "target_language": "de",
            "train_source": [f"/some/where/part{i}.en" for i in range(2)],
            "train_target": [f"/some/where/part{i}.de" for i in range(2)],
        },
        corpus="text files",
        text_lines=2_500,
        text_sha256="123456789abcdef",
        vocabulary_size=8_000,
        vocabulary_sha256="",
        pairs_per_shard=1000,
        max_length=100,
    )
    tokens = TokenizationReport(pairs_kept=2_000, source_tokens=17, target_tokens=18)
    counts = {"copied": 499, "numbers": 0}
    manifest = Manifest(spec, "", 2_000, tokens, counts, (), {}, "")
    return CorpusReport(
        manifest,
        {"kept": 2_000, "no text on a side": 1, "copied": 499, "numbers": 0},
        lengths_of([2, 3] * 1000, [4, 5] * 1000),
        [0] * len(RATIOS) + [2_000],
        Scripts(1_000, {"LATIN": 9, "spaces": 1}, {"CYRILLIC": 19_999, "LATIN": 1}),
        Duplicates(False, 2_000, 1_000, 6, ((7, Example(3, "ds", "dt")),)),
        {
            "kept": (Example(1, "ks", "kt"),),
            "no text on a side": (Example(2, "", "only"),),
            "copied": (Example(1_234, "c", "c"),),
            "numbers": (),
        },
    )


def with_text(report, text):
    """Returns the report with a text in all places that are of strangers."""
    pair = Example(5, text, text)
    settings = {**report.manifest.spec.settings, "train_source": [f"/x/{text}"]}
    spec = dataclasses.replace(
        report.manifest.spec, corpus=text, settings=settings | {"train_target": []}
    )
    return dataclasses.replace(
        report,
        manifest=dataclasses.replace(report.manifest, spec=spec),
        duplicates=dataclasses.replace(report.duplicates, pairs=((7, pair),)),
        examples={name: (pair,) for name in report.examples},
    )


@pytest.mark.parametrize("text", STRANGE)
def test_text_of_strangers_is_shown_and_does_nothing(report, text):
    harmless = Reader(render_html(corpus_page(with_text(report, "word"))))
    page = corpus_page(with_text(report, text))
    read = Reader(render_html(page))
    assert read.tags == harmless.tags
    assert [n for n, _ in read.attributes] == [n for n, _ in harmless.attributes]
    assert not {"script", "link", "iframe", "object", "base", "img"} & {*read.tags}
    for name, value in read.attributes:
        assert name != "src"
        if name == "href":
            assert value and value.startswith("#")
        if name == "style":
            assert re.fullmatch(r"width: [0-9]+\.[0-9]%", value or "")
    shown = "".join(read.texts), render_text(page)
    assert len(render_text(page).splitlines()) >= len(
        render_text(corpus_page(with_text(report, "word"))).splitlines()
    )
    for output in shown:
        controls = {c for c in output if unicodedata.category(c)[0] == "C"}
        assert controls <= {"\n"}
        longest = max(map(len, output.splitlines()))
        assert longest < 700
        part = " ".join(text.split())[:200]
        if part.isprintable() and text == " ".join(text.split()):
            # Both sides of five pairs.
            assert output.count(part) >= 10


def test_texts_have_their_own_direction(report):
    html = render_html(corpus_page(with_text(report, "سلام")))
    assert html.count('<span dir="auto">سلام</span>') == 10


def test_what_is_shown_says_of_how_many(report):
    text = " ".join(render_text(corpus_page(report)).split())
    for part in (
        "Corpus: text files, en to de",
        "2,500 lines of part0.en, part1.en, part0.de and 1 more (SHA-256 123456789abc",
        "17 source and 18 target tokens of 8,000 subwords",
        "What became of the 2,500 lines.",
        "kept 2,000 80.0% ████████████████ no text on a side 1 <0.1% ▏ copied 499 20.",
        "numbers 0 0.0% Lengths",
        "Tokens of all 2,000 kept pairs,",
        "source 2.5 2 3 3 3 target 4.5 4 5 5 5",
        "Share of the characters in 1,000 of the 2,000 kept pairs.",
        "CYRILLIC 0.00% 100.00% LATIN 90.00% <0.01% spaces 10.00% 0.00%",
        "counted in 1,000 of the 2,000 kept pairs. 6 of them have occurred before",
        "occurs about 2.00 times as often. at least 7 ds dt",
        "1 of the 2,000 kept pairs at random line 1 ks kt",
        "-- no text on a side The only line line 2 only copied 1 of the 499 lines at "
        "random line 1,234 c c",
    ):
        assert part in text, part
    assert not text.endswith("numbers")
    assert "/some/where" not in text


@pytest.mark.parametrize(
    ("source", "target", "first", "last", "rows"),
    [
        ([1], [1], "1", "1", 1),
        ([2, 15], [3], "1", "15", 15),
        ([2, 16], [3], "1 to 2", "15 to 16", 8),
        ([2, 75], [3], "1 to 5", "71 to 75", 15),
        ([*range(1, 31)] * 100, [100], "1 to 10", "91 to 100", 10),
        ([9] * 999, [9] * 999 + [99], "1", "10 to 99", 10),
        ([9] * 999, [9] * 999 + [10], "1", "10", 10),
        ([1001], [10], "1 to 100", "1,001 to 1,100", 11),
    ],
)
def test_rows_of_lengths_cover_all_sentences(report, source, target, first, last, rows):
    counts = lengths_of(source, target, longest=1200)
    page = corpus_page(dataclasses.replace(report, lengths=counts))
    [table] = [
        block
        for block in page.blocks
        if isinstance(block, Table) and block.header[0] == "tokens"
    ]
    names = [row.cells[0] for row in table.rows]
    assert (names[0], names[-1], len(names)) == (first, last, rows)
    for column, lengths in ((1, source), (3, target)):
        shown = [int(str(row.cells[column]).replace(",", "")) for row in table.rows]
        assert sum(shown) == len(lengths)
        for name, count in zip(names, shown, strict=True):
            low, _, high = str(name).replace(",", "").partition(" to ")
            inside = [x for x in lengths if int(low) <= x <= int(high or low)]
            assert count == len(inside)


def test_text_is_written_without_html_where_it_cannot_be_rendered(report, tmp_path):
    text = write_corpus_report(report, tmp_path, html=True)
    assert (tmp_path / "report.txt").read_text("utf-8") == text
    html = (tmp_path / "report.html").read_text("utf-8")
    assert html == render_html(corpus_page(report))
    # An old one would be about other records.
    assert write_corpus_report(report, tmp_path, html=False) == text
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]
