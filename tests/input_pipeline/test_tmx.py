"""TMX files written by hand after TMX 1.4b, and what is refused."""

import bz2
import re
import tracemalloc

import pytest
import zstandard

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.parallel_text import (
    open_parallel_text,
    read_parallel_text,
)

CODES = ("en", "de")
HEADER = '<?xml version="1.0"{}?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
PLAIN = HEADER.format("")
BEGIN = (
    '<tmx version="1.4">\n'
    '<header creationtool="x" segtype="sentence" adminlang="en" srclang="en">'
    "<note>About</note></header>\n<body>\n"
)
END = "</body></tmx>\n"
UNIT = (
    '<tu tuid="1"><prop type="x">a</prop><tuv xml:lang="{}"><note>n</note><seg>{}</seg>'
    '</tuv>\n<tuv xml:lang="{}"><seg>{}</seg></tuv></tu>\n'
)


def unit(source, target, codes=CODES):
    return UNIT.format(codes[0], source, codes[1], target)


def write(tmp_path, *units, header=PLAIN, end=END):
    path = tmp_path / "a.tmx"
    path.write_text("".join([header, BEGIN, *units, end]), encoding="utf-8")
    return path


def read(path, languages=CODES):
    text = open_parallel_text([path], languages=languages)
    pairs = list(text.lines())
    assert pairs == list(read_parallel_text(path, None, languages))
    return pairs, text.report


# The content of a segment, and the sentence that it is.
SEGMENTS = (
    ("plain", "plain"),
    (
        "a &lt;b&gt; &amp; &#228;&#x1F600; <![CDATA[<c> &amp;]]>",
        "a <b> & ä😀 <c> &amp;",
    ),
    ("a\nb\r\nc&#13;d&#10;e", "a b c d e"),  # XML reads CRLF as LF
    ("<!-- no text -->a<?pi no text?>b", "ab"),
    # Section "Content Markup": native codes around text, isolated and standing alone.
    (
        'The <bpt i="1" x="1">{\\b </bpt>black<ept i="1">}</ept> '
        '<it pos="begin" x="2">&lt;i></it>cat<ph x="3" type="image">&lt;img></ph>.',
        "The black cat.",
    ),
    ('Press <hi type="ui">Save <hi>now</hi></hi>.', "Press Save now."),
    # A footnote is a text of its own.
    (
        'Elephants<ph type="fnote">{\\fn <sub>a <hi>big</hi> animal</sub>}</ph> run',
        None,
    ),
    ('one<ph type="lb">&lt;br></ph>two<it pos="end" type="pb"/>three', "one two three"),
    ("a<ut>{\\x}</ut>b <b>bold</b> <sub>below</sub>", "ab bold below"),
    ("", ""),
)


@pytest.mark.parametrize(("content", "sentence"), SEGMENTS)
def test_a_segment_is_its_text_without_codes(tmp_path, content, sentence):
    sentence = "Elephants run" if sentence is None else sentence
    path = write(tmp_path, unit(content, "x"), unit("y", content))
    pairs, report = read(path)
    assert pairs == [(sentence.encode(), b"x"), (b"y", sentence.encode())]
    assert report.dropped_empty == (0 if sentence else 2)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("utf-8-sig", bytes),
        ("utf-16", bytes),
        ("iso-8859-1", bytes),
        ("windows-1252", bz2.compress),
        ("utf-8", zstandard.ZstdCompressor().compress),
    ],
)
def test_any_encoding_that_xml_declares_is_read(tmp_path, encoding, pack):
    declared = f' encoding="{encoding.removesuffix("-sig")}"'
    text = HEADER.format(declared) + BEGIN + unit("süß", "é") + END
    path = tmp_path / "a.tmx.zst"
    path.write_bytes(pack(text.encode(encoding)))
    assert read(path)[0] == [("süß".encode(), "é".encode())]


@pytest.mark.parametrize(
    ("codes", "languages", "is_found"),
    [
        (("EN-us", "de_DE"), CODES, True),
        (("de", "en"), ("de", "EN"), True),
        (("eng", "de"), CODES, False),
        (("en", "de"), ("en-GB", "de"), False),
        (("zh-Hant-TW", "de"), ("zh-hant", "de"), True),
    ],
)
def test_a_code_is_that_of_its_variants(tmp_path, codes, languages, is_found):
    path = write(tmp_path, unit("a", "b", codes), unit("c", "d", languages))
    pairs = [(b"a", b"b")] * is_found + [(b"c", b"d")]
    assert read(path, languages)[0] == pairs


def test_the_first_text_of_a_language_counts_and_none_twice(tmp_path):
    more = '<tuv lang="{}"><seg>{}</seg></tuv>'  # as before TMX 1.4
    texts = [("de", "A"), ("en-GB", "a"), ("fr", "x"), ("en-US", "b"), ("de", "B")]
    unit = f"<tu>{''.join(more.format(*text) for text in texts)}</tu>"
    path = write(tmp_path, unit)
    for languages, pair in (
        (CODES, (b"a", b"A")),
        (("en-US", "de"), (b"b", b"A")),
        (("en", "en"), (b"a", b"b")),
    ):
        assert read(path, languages)[0] == [pair]


def test_units_without_both_languages_are_counted(tmp_path):
    lonely = '<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv><seg>b</seg></tuv></tu>'
    path = write(tmp_path, lonely, unit("c", "d"), unit("e", "f", ("en", "fr")))
    pairs, report = read(path)
    assert pairs == [(b"c", b"d")]
    (warning,) = report.warnings()
    assert re.search(
        r"2 of 3 units of .*a\.tmx have no text in en and de and are left out\. "
        r"Languages of the file: en \(3\), .*fr \(1\)",
        warning,
    )
    message = r"has 3 units, but none in pt and de\. Its languages are: en \(3\)"
    with pytest.raises(UserError, match=message):
        read(path, ("pt", "de"))
    with pytest.raises(UserError, match="texts in many languages, and none are named"):
        read(path, ())
    assert read(write(tmp_path))[0] == []


BOMB = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 9))


@pytest.mark.parametrize(
    ("header", "end", "message"),
    [
        (
            f'<!DOCTYPE tmx [<!ENTITY e0 "a">{BOMB}]>',
            END,
            "line 1: .* the entity e0, and",
        ),
        (
            '<!DOCTYPE tmx [\n<!ENTITY a SYSTEM "file:///etc/passwd">]>',
            f"<tu>&a;</tu>{END}",
            "line 2: it declares the entity a,",
        ),
        ('<!DOCTYPE tmx [<!ENTITY % a SYSTEM "x">%a;]>', END, "declares the entity a,"),
        (PLAIN, f"<tu>&nbsp;</tu>{END}", "entity &nbsp; is not defined"),
        ("", f"<tu>&nbsp;</tu>{END}", r"not well-formed XML \(undefined entity"),
        ("", "", r"line 4: it is not well-formed XML \(no element found"),
        ("", "<tu></body></tmx>", r"XML \(mismatched tag"),
        ("", f"&#31;{END}", r"XML \(reference to invalid character"),
        (HEADER.format(' encoding="shift_jis"'), END, "XML .*multi-byte"),
        (HEADER.format(' encoding="none"'), END, r"XML \(unknown encoding"),
        ("<xliff>", "</xliff>", "line 1: the XML is not TMX, but begins with <xliff>"),
        ("a\tb\n", "", r"line 1: it is not well-formed XML \(syntax error"),
    ],
)
def test_what_is_no_plain_tmx_is_refused(tmp_path, header, end, message):
    path = write(tmp_path, header=header, end=end)
    with pytest.raises(UserError, match=rf"a\.tmx, {message}|a\.tmx, line .*{message}"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"<tmx>\xff</tmx>"])
def test_what_is_no_xml_is_refused(tmp_path, content):
    (tmp_path / "a.tmx").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.tmx, line 1: it is not well-formed XML"):
        read(tmp_path / "a.tmx")


def test_a_file_on_one_line_is_read_in_parts(tmp_path):
    count, text = 2_000, "long " * 1_000
    path = write(tmp_path, *[unit(text, text).replace("\n", "")] * count)
    tracemalloc.start()
    found = sum(1 for _ in read_parallel_text(path, None, CODES))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == count
    assert path.stat().st_size > 20_000_000 > 10 * most
