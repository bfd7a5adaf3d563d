import bz2
import gzip
import hashlib
import lzma
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.corpora.parallel_text import (
    open_parallel_text,
    read_lines,
    read_parallel_text,
)


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        packers = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
        path.write_bytes(packers.get(path.suffix, bytes)(content))
        return path

    return write_file


def read_pairs(source, target=()):
    return list(open_parallel_text(source, target).pairs())


def test_only_a_line_feed_ends_a_line(write):
    source = write("a.en", "one\rstill\u2028one\x85\x0b\x0c\x1cone\ntwo\r\r\nthree")
    target = write("a.de", "eins\r\nzwei\ndrei\n")
    assert read_pairs([source], [target]) == [
        ("one\rstill\u2028one\x85\x0b\x0c\x1cone".encode(), b"eins"),
        (b"two\r", b"zwei"),
        (b"three", b"drei"),
    ]


LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)


@given(lines=st.lists(LINE.map(lambda line: f"x{line}y"), min_size=1, max_size=6))
def test_any_text_comes_back_line_for_line(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a").write_bytes("\n".join(lines).encode())
    (folder / "b").write_bytes("".join(f"{line}\n" for line in lines).encode())
    expected = [(line.encode(), line.encode()) for line in lines]
    assert read_pairs([folder / "a"], [folder / "b"]) == expected


def test_several_files_plain_and_compressed_follow_one_another(write):
    sources = [write("1.en", "a\nb\n"), write("2.en.gz", "c\n"), write("3.en.xz", "d")]
    targets = [write("1.de.bz2", "A\nB\n"), write("2.de", "C\n"), write("3.de", "D")]
    text = open_parallel_text(sources, targets)
    expected = [(b"a", b"A"), (b"b", b"B"), (b"c", b"C"), (b"d", b"D")]
    assert list(text.pairs()) == expected
    assert list(text.pairs()) == expected  # and again
    assert (text.report.lines, text.report.pairs) == (4, 4)
    assert text.report.warnings() == ()


def test_patterns_are_expanded_in_order(write, tmp_path):
    for number in (3, 1, 2):
        write(f"part{number}.en", f"s{number}\n")
        write(f"part{number}.de", f"t{number}\n")
    pattern = str(tmp_path / "part[0-9].en"), str(tmp_path / "part*.de")
    expected = [(b"s1", b"t1"), (b"s2", b"t2"), (b"s3", b"t3")]
    assert read_pairs(pattern[:1], pattern[1:]) == expected


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(write):
    source, target = write("a[1].en", "x\n"), write("a[1].de", "y\n")
    assert read_pairs([source], [target]) == [(b"x", b"y")]


def test_tsv_holds_both_sides(write):
    first, second = (
        write("a.tsv", "one\teins\r\n\n  \n\t\t\u3000\n\t\ntwo\tzwei"),
        write("b.tsv.xz", "x\ty\n"),
    )
    text = open_parallel_text([first, second])
    assert list(text.pairs()) == [(b"one", b"eins"), (b"two", b"zwei"), (b"x", b"y")]
    # Blank lines have no columns, as in two files.
    assert text.report.dropped_empty == 4
    assert text.report.lines == 7


MAYBE_CSV = r"\. This may be CSV, but quotes and commas are text .* or as \.jsonl"
MAYBE_JSON = r"\. If the file is of JSON lines, name it \.jsonl\."


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        ("no tab", "1$"),
        ("a\tb\tc", "3$"),
        ("a,b,c", "1$"),
        (f'a,"{"x" * 200_000}"', "1$"),  # longer than csv takes
        ("a\rb,c", "1$"),
        ("one,eins", f"1{MAYBE_CSV}"),
        ('"one, two";eins', f"1{MAYBE_CSV}"),
        ('"a\tb"\tc', f"3{MAYBE_CSV}"),
        ('"the first line', f"1{MAYBE_CSV}"),
        ('{"en": "one"}', f"1{MAYBE_JSON}"),
    ],
)
def test_tsv_of_other_columns(write, line, columns):
    path = write("a.tsv", f"one\teins\n{line}\n")
    with pytest.raises(UserError, match=rf"a\.tsv, line 2: .*Received: {columns}"):
        open_parallel_text([path])


def test_quotes_and_commas_in_two_columns_are_text(write):
    path = write("a.tsv", '"a, b"\t"c\n')
    assert read_pairs([path]) == [(b'"a, b"', b'"c')]


@pytest.mark.parametrize(
    ("rows", "warnings"),
    [
        (["source\ttarget", "a\tb"], ["names of its columns, .*: source, target"]),
        (["src_text\ttrg_text"], ["names of its columns"]),
        (["en\tde"], ["names of its columns"]),
        (["PT\tzh-Hant"], ["names of its columns"]),
        (["Portuguese 1\t中文"], ["names of its columns"]),
        (['"source"\t"target"', '"a"\t"b"'], ["names", "double quotes .* 2 of .* 2 "]),
        (['"a"\t"b"', '"a ""x"" b"\t"c"', '"a"\tb'], ["double quotes"]),
        (['"a"\t"b"', '"a" b\t"c"', "a\tb"], []),
        (["source\tQuelle", "en\tde", "\t"], []),
    ],
)
def test_tables_with_a_header_or_quotes_give_a_warning(write, rows, warnings):
    path = write("a.tsv", "\n".join(rows) + "\n")
    text = open_parallel_text([path], languages=("pt", "zh-Hant"))
    found = text.report.format_warnings
    assert len(found) == len(warnings), found
    for message, pattern in zip(found, warnings, strict=True):
        assert re.search(rf"a\.tsv .*{pattern}", message), message
    assert text.report.warnings()[: len(found)] == found


def test_empty_lines_are_dropped_and_counted(write):
    source = write("a.en", "one\n\n \u3000\nfour\nfive\n\n")
    target = write("a.de", "eins\nzwei\ndrei\n\t\r\n...\n\n")
    text = open_parallel_text([source], [target])
    assert list(text.pairs()) == [(b"one", b"eins"), (b"five", b"...")]
    assert (text.report.lines, text.report.pairs) == (6, 2)
    assert text.report.dropped_empty == 4
    assert "4 of 6 lines have no text" in text.report.warnings()[0]


def test_invalid_utf8_is_replaced_and_counted(write):
    source = write("a.en", b"caf\xe9\nfine\n\xff\n" + b"x\n" * 40)
    target = write("a.de", "Café\nfein\nx\n" + "x\n" * 40)
    text = open_parallel_text([source], [target])
    assert next(iter(text.pairs())) == ("caf\ufffd".encode(), "Café".encode())
    assert text.report.invalid_utf8 == 2
    assert "2 of 43 lines are not valid UTF-8" in text.report.warnings()[0]


def test_the_hash_is_of_the_pairs(write):
    def hashes(source, target):
        files = write("h.en", source), write("h.de", target)
        text = open_parallel_text([files[0]], [files[1]])
        return text.report.fingerprint, text.sha256()

    same = hashes("a\nb\n", "c\nd\n")
    assert same == hashes("a\r\n\nb", "c\nx\nd\n")
    # That of releases up to 0.9.
    assert same[1] == hashlib.sha256(b"a\nc\nb\nd\n").hexdigest()
    others = [hashes("a\nb\n", "d\nc\n"), hashes("b\na\n", "c\nd\n"), hashes("a", "c")]
    for old_and_new in zip(same, *others, strict=True):
        assert len(set(old_and_new)) == 4
    for one, other in zip(hashes("ab", "c"), hashes("a", "bc"), strict=True):
        assert one != other


@pytest.mark.parametrize(
    "source, target, counts",
    [
        ("a\nb\nc\n", "A\n", (3, 1)),
        ("a\n", "A\nB", (1, 2)),
        ("a\nb\n", "A\nB\n\n", (2, 3)),
        ("", "A\nB\n", (0, 2)),
    ],
)
def test_unequal_numbers_of_lines(write, source, target, counts):
    paths = write("a.en", source), write("a.de", target)
    message = rf"a\.en has {counts[0]} lines, but .*a\.de has {counts[1]}\."
    with pytest.raises(UserError, match=message):
        open_parallel_text([paths[0]], [paths[1]])


def test_files_that_only_together_are_equal_are_refused(write):
    sources = [write("1.en", "a\nb\n"), write("2.en", "c\n")]
    targets = [write("1.de", "A\n"), write("2.de", "B\nC\n")]
    with pytest.raises(UserError, match=r"1\.en has 2 lines, but .*1\.de has 1\."):
        open_parallel_text(sources, targets)


def test_a_missing_file_and_its_neighbors(write, tmp_path):
    write("train.en", "a\n")
    with pytest.raises(
        UserError, match=r"trian\.en does not exist\. Did you mean train"
    ):
        open_parallel_text([tmp_path / "trian.en"], [tmp_path / "train.en"])
    with pytest.raises(UserError, match=r"zzz does not exist\.$"):
        open_parallel_text([tmp_path / "zzz"], [tmp_path / "train.en"])
    with pytest.raises(UserError, match=r"does not exist, nor does the folder .*none"):
        open_parallel_text([tmp_path / "none" / "a.en"])
    with pytest.raises(
        UserError, match=r"No file matches .*\*\.fr\. Check the pattern"
    ):
        open_parallel_text([tmp_path / "*.fr"])
    with pytest.raises(UserError, match=r"is a folder\. Name the text files"):
        open_parallel_text([tmp_path])


def test_what_can_be_read_once_is_for_lines_and_not_for_pairs():
    reader, writer = os.pipe()
    os.write(writer, b"a\nb\r\n")
    os.close(writer)
    path = f"/dev/fd/{reader}"
    for read, side in ((open_parallel_text, [path]), (read_parallel_text, path)):
        with pytest.raises(UserError, match=f"{path} is a pipe or a device"):
            read(side, side)
    assert list(read_lines([path])) == [b"a", b"b"]
    os.close(reader)


def test_text_in_another_encoding_is_refused(write):
    """1 % of lines that are not UTF-8 may pass, in one of many files too."""
    text = "süß\n" * 6 + "sauer\n" * 94
    german, latin = write("a.de", text), write("b.de", text.encode("latin-1"))
    with pytest.raises(UserError, match=r"b\.de is not text in UTF-8: 6 of 100 lines"):
        open_parallel_text([german] * 2, [german, latin])
    with pytest.raises(UserError, match=r"c\.tsv is text in UTF-16"):
        open_parallel_text([write("c.tsv", text.encode("utf-16"))])


def test_sides_that_do_not_belong_together(write):
    en, de, tsv = write("a.en", "x\n"), write("a.de", "y\n"), write("a.tsv", "x\ty\n")
    with pytest.raises(UserError, match="No source files are given"):
        open_parallel_text([], [de])
    with pytest.raises(UserError, match=r"No target file belongs to .*a\.en"):
        open_parallel_text([tsv, en])
    with pytest.raises(UserError, match=r"a\.tsv holds both sides.*Received: .*a\.de"):
        open_parallel_text([en, tsv], [de, de])
    with pytest.raises(UserError, match="Source names 2 files and target 1;"):
        open_parallel_text([en, en], [de])


def test_a_file_that_cannot_be_read(write, monkeypatch):
    path = write("a.en", "x\n")

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refused)
    with pytest.raises(UserError, match=re.escape("a.en cannot be read: Permission")):
        open_parallel_text([path], [path])
