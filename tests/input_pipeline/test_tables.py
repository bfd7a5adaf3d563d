"""JSON lines and Parquet as pyarrow and json write them, and what is refused."""

import gzip
import json
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from t2t_keras.errors import MissingPackage, UserError
from t2t_keras.input_pipeline.corpora.parallel_text import (
    open_parallel_text,
    read_parallel_text,
)

CODES = ("en", "de")
# Rows, and the pair of each: line breaks are spaces, null is an empty side.
ROWS = (
    ("one", "eins", (b"one", b"eins")),
    ("a\nb\r\nc", "\u2028x\u0085y\t", (b"a b  c", "\u2028x\u0085y\t".encode())),
    (None, "fehlt", (b"", b"fehlt")),
    (" ", "leer", (b" ", b"leer")),
    ("\0", '"', (b"\0", b'"')),
    ("z" * 1_000_000, "lang", (b"z" * 1_000_000, b"lang")),
    *((f"{i}", f"-{i}", (b"%d" % i, b"-%d" % i)) for i in range(3000)),
)
PAIRS = [pair for *_, pair in ROWS]


def write_json_lines(path, rows):
    lines = [json.dumps(row, ensure_ascii=len(row) % 2 == 0) for row in rows]
    path.write_bytes(("\ufeff" + "\r\n".join(lines)).encode())


def write_parquet(path, rows):
    table = pa.Table.from_pylist(list(rows))
    parquet.write_table(table, path, row_group_size=700)


WRITERS = {"a.jsonl": write_json_lines, "a.parquet": write_parquet}
writers = pytest.mark.parametrize("name", WRITERS)


def nested(source, target):
    return {"id": 1, "translation": {"de": target, "en": source}, "en": "x", "de": "y"}


LAYOUTS = (
    (nested, CODES, ()),
    (lambda s, t: {"de": t, "en": s, "source": "x", "target": "y"}, CODES, ()),
    (lambda s, t: {"source": s, "en": "x", "target": t}, CODES, ()),
    (lambda s, t: {"target": t, "source": s, "en": "x", "de": "y"}, (), ()),
    (lambda s, t: {"a": {"b.c": {"d": s}}, "e": t}, CODES, ("a.b.c.d", "e")),
    # A column that has a dot in its name, as tables that were flattened have.
    (lambda s, t: {"translation.en": s, "translation.de": t}, CODES, ()),
)


@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
@writers
def test_the_pairs_of_a_table_are_its_rows(tmp_path, name, layout):
    make, languages, columns = LAYOUTS[layout]
    if "a.b.c.d" in columns and name == "a.jsonl":
        make, columns = (lambda s, t: {"a": {"b": {"d": s}}, "e": t}), ("a.b.d", "e")
    path = tmp_path / name
    WRITERS[name](path, (make(source, target) for source, target, _ in ROWS))
    text = open_parallel_text([path], languages=languages, columns=columns)
    assert list(text.lines()) == PAIRS == list(text.lines())
    assert list(read_parallel_text(path, None, languages, columns)) == PAIRS
    assert (text.report.lines, text.report.dropped_empty) == (len(ROWS), 2)
    # As the same text in two files, on which a run resumes then.
    for side, ending in enumerate(CODES):
        lines = [pair[side] for pair in PAIRS]
        (tmp_path / f"a.{ending}").write_bytes(b"\n".join(lines) + b"\n")
    plain = open_parallel_text([tmp_path / "a.en"], [tmp_path / "a.de"])
    assert plain.report.fingerprint == text.report.fingerprint


@writers
def test_a_null_around_a_column_is_an_empty_side(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path, [nested("a", "b"), {**nested("", ""), "translation": None}])
    text = open_parallel_text([path], languages=CODES)
    assert list(text.lines()) == [(b"a", b"b"), (b"", b"")]


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@given(rows=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5))
def test_any_text_is_one_line_and_otherwise_unchanged(tmp_path_factory, rows):
    folder = tmp_path_factory.getbasetemp()
    expected = [
        tuple(cell.replace("\n", " ").replace("\r", " ").encode() for cell in row)
        for row in rows
    ]
    for name, write in WRITERS.items():
        path = folder / name
        write(path, [{"source": source, "target": target} for source, target in rows])
        assert list(read_parallel_text(path)) == expected, name


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_all_types_of_strings_in_parquet_are_read(tmp_path, kind):
    table = {code: pa.array(["ä", None, "c"]).cast(kind) for code in CODES}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    pairs = list(read_parallel_text(tmp_path / "a.parquet", None, CODES))
    assert pairs == [("ä".encode(),) * 2, (b"", b""), (b"c", b"c")]


def test_compressed_json_lines_with_blank_lines(tmp_path):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"source":"a","target":"b"}\n \n\n'))
    text = open_parallel_text([path])
    assert list(text.lines()) == [(b"a", b"b"), (b"", b""), (b"", b"")]


@pytest.mark.parametrize("rows", [[], [{"source": "a", "target": "b"}]])
@writers
def test_few_rows(tmp_path, name, rows):
    path = tmp_path / name
    kinds = pa.schema([("source", pa.string()), ("target", pa.string())])
    if name == "a.parquet":
        parquet.write_table(pa.Table.from_pylist(rows, kinds), path)
    else:
        path.write_text("".join(map(json.dumps, rows)))
    assert list(open_parallel_text([path]).pairs()) == [(b"a", b"b")] * len(rows)


def test_invalid_bytes_are_replaced_and_counted_or_refused(tmp_path):
    invalid = pa.array([b"caf\xe9", *[b"x"] * 40]).view(pa.string())
    lines = (
        b'{"source": "caf\xe9", "target": "y"}' + b'\n{"source":"","target":"z"}' * 40
    )
    broken = b'{"source": "\\ud83d", "target": "y"}\n'
    for name, content, expected in (
        ("a.jsonl", lines, "caf\ufffd"),
        ("b.jsonl", broken, "\ufffd" * 3),
        ("a.parquet", pa.table({"source": invalid, "target": invalid}), "caf\ufffd"),
    ):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            parquet.write_table(content, path)
        text = open_parallel_text([path])
        assert text.report.invalid_utf8 == 1
        assert next(text.lines())[0] == expected.encode()
    latin = pa.array([b"caf\xe9"] * 5).view(pa.string())
    parquet.write_table(pa.table({"source": latin, "target": latin}), path)
    with pytest.raises(UserError, match=r"a\.parquet is not text in UTF-8: 5 of 5"):
        open_parallel_text([path])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb", r"line 1: it is not JSON \(.*such as {\"source"),
        ('[\n{"source": "a"}', r"line 1: it is not JSON .* jq -c '\.\[\]'"),
        ('{"source": "a", "target": "b"}\n{"source": "a', "line 2: it is not JSON"),
        ("[" * 200_000, "line 1: it is not JSON"),
        ("9" * 5000, "line 1: it is not JSON"),
        ('["a", "b"]', r"line 1: a line must be an object .*\"a\", \"b\"\]\. jq"),
        ('"a"', r"line 1: a line must be an object .*Received: \"a\"\.$"),
        (
            '\n{"en": "a", "fr": {"x": 1, "y": []}}',
            r"line 2: a row must have the columns translation\.en and translation\.de, "
            r"or en and de, or source and target\. There are: en, fr\.x, fr\.y\. .*"
            "--source_column",
        ),
        ('{"en": "a", "de": "b"}\n{"en": "a"}', "line 2: there is no de, which other"),
        ('{"en": "a", "de": 7.5}', r"line 1: de must be a string, .*Received: 7\.5"),
        ('{"en": "a", "de": ["ü"]}', r'de must be a string, .*Received: \["ü"\]'),
        (json.dumps({f"c{i}": 1 for i in range(99)}), r"c18, c19, …\. Name"),
        ("PAR1\x15\x04", "is a table in Parquet"),
    ],
)
def test_json_lines_of_another_kind_are_refused(tmp_path, text, message):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"(?s)a\.jsonl.*{message}"):
        open_parallel_text([path], languages=CODES)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"en": ["a"], "x": [{"fr": ["b"]}]},
            r"must have the columns .*\. There are: en, x\.fr\.list\.element\. Name",
        ),
        ({"en": ["a"], "de": [1]}, "column de must be of strings. It is of type int"),
        (
            {"en": ["a"], "de": [b"b"]},
            "de must be of strings. It is .* byte_array: con",
        ),
    ],
)
def test_parquet_of_other_columns_is_refused(tmp_path, columns, message):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table(columns), path)
    with pytest.raises(UserError, match=rf"a\.parquet.*{message}"):
        open_parallel_text([path], languages=CODES)


def test_damaged_parquet_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    rows = [{"source": str(i) * 9, "target": "b"} for i in range(99)]
    write_parquet(path, rows)
    whole = path.read_bytes()
    for content in (b"", b"a\tb\n", whole[:-9], gzip.compress(whole)):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"damaged, incomplete, or not in Parquet"):
            open_parallel_text([path])
    named = tmp_path / "a.tsv"
    named.write_bytes(whole)
    with pytest.raises(UserError, match=r"a table in Parquet, .* name it \.parquet"):
        open_parallel_text([named])


def test_a_row_group_is_read_in_parts(tmp_path):
    path = tmp_path / "a.parquet"
    column = pa.array([f"{i:09d}" * 60 for i in range(50_000)])
    table = pa.table({"source": column, "target": column})
    parquet.write_table(table, path, compression="none", use_dictionary=False)
    del column, table
    pool = pa.default_memory_pool()
    pool.release_unused()
    before, most = pool.bytes_allocated(), 0
    for _ in read_parallel_text(path):
        most = max(most, pool.bytes_allocated() - before)
    assert path.stat().st_size > 50_000_000 > 4 * most > 0


def test_without_pyarrow_parquet_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_parquet(path, [{"source": "a", "target": "b"}])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackage, match=r'\(pyarrow\): .*"t2t_keras\[formats\]"'):
        open_parallel_text([path])
