"""Line I/O: reading lines, refused files, and atomic writing."""

import contextlib
import gzip
import io
import itertools
import os
import sys

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.lines import (
    CountedLines,
    chunks,
    open_input,
    open_output,
    open_prefixes,
    strip_line_ends,
)

TEXT = "a b\n\u2028 \x0b\r\n\nz".encode()


def read_all(path, **named):
    with open_input(str(path), **named) as file:
        return list(strip_line_ends(file))


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_nothing_but_lf_ends_a_line(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT) if name.endswith("gz") else TEXT)
    assert read_all(path) == [b"a b", "\u2028 \x0b\r".encode(), b"", b"z"]


def test_standard_input_is_a_dash(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\xff")))
    assert read_all("-") == [b"a", b"b\xff"]


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_file_is_refused(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(UserError, match=r"no file .* \(--target\)"):
        read_all(path, flag="target")


@pytest.mark.parametrize("kept", [0, 12, -1])
def test_a_damaged_gzip_file_is_refused(tmp_path, kept):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(os.urandom(999))[:kept] or b"no gzip")
    with pytest.raises(UserError, match="is a damaged or incomplete gzip file"):
        read_all(path)


def test_chunks_are_of_one_size_but_the_last():
    for count, sizes in ((0, []), (1, [1]), (3, [3]), (7, [3, 3, 1])):
        found = list(chunks(range(count), 3))
        assert [len(chunk) for chunk in found] == sizes, count
        assert [*itertools.chain(*found)] == list(range(count)), count


def test_a_chunk_is_read_when_it_is_wanted():
    endless = itertools.count()
    assert next(chunks(endless, 3)) == [0, 1, 2]
    assert next(endless) == 3


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with open_output(str(path)) as file:
        file.write("grün\u2028\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "grün\u2028\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_halfway_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), open_output(str(path)) as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_that_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "missing" / "out.txt"
    with (
        pytest.raises(UserError, match=r"out\.txt cannot be written: No such"),
        open_output(str(path)),
    ):
        pass


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path):
    pipe, link, real = tmp_path / "pipe", tmp_path / "link", tmp_path / "real"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(str(pipe)) as file:
        file.write("into the pipe\n")
    assert os.read(reader, 99) == b"into the pipe\n" and pipe.is_fifo()
    os.close(reader)
    real.write_text("old")
    link.symlink_to(real)
    with open_output(str(link)) as file:
        file.write("new")
    assert link.is_symlink() and real.read_text() == "new"


def test_standard_output_is_utf8_with_plain_line_ends(monkeypatch):
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="latin-1", newline="\r\n")
    monkeypatch.setattr(sys, "stdout", stream)
    with open_output("-") as file:
        file.write("漢字\n")
    assert not stream.closed
    stream.flush()
    assert written.getvalue() == "漢字\n".encode()


def test_lines_that_are_not_utf8_are_counted_and_passed_on():
    # An overlong form, a surrogate, a single byte, and three well-formed lines.
    lines = [
        b"\xc0\x80",
        b"a\xed\xa0\x80",
        b"\xff b",
        b"",
        "ü".encode(),
        b"\xef\xbf\xbd",
    ]
    counted = CountedLines(lines)
    assert list(itertools.islice(counted, 0)) == []
    assert counted.warning == ""
    assert list(counted) == lines
    assert "3 of 6 lines are not valid UTF-8" in counted.warning
    assert CountedLines(lines[3:]).warning == ""


def pair(lines, prefix):
    with contextlib.ExitStack() as stack:
        return list(open_prefixes(iter(lines), prefix, stack))


def test_prefixes_come_from_a_column_or_a_file(tmp_path):
    lines = [b"a\tx y\tz", b"b", b"\tx"]
    assert pair(lines, None) == [(line, b"") for line in lines]
    assert pair(lines, "column") == [(b"a", b"x y\tz"), (b"b", b""), (b"", b"x")]
    path = tmp_path / "prefixes.txt"
    path.write_bytes(b"x\n\nz\n")
    assert pair(lines, str(path)) == list(zip(lines, [b"x", b"", b"z"], strict=True))


def test_files_that_do_not_match_are_refused(tmp_path):
    path = tmp_path / "prefixes.txt"
    for text, message in (
        (b"x\ny\n", "There are 2 prefixes but more lines. Each line needs its prefix"),
        (b"x\ny\nz\nu\n", "There are 3 lines but more prefixes."),
    ):
        path.write_bytes(text)
        with pytest.raises(UserError) as caught:
            pair([b"a", b"b", b"c"], str(path))
        assert message in str(caught.value)
    with pytest.raises(UserError, match=r"no file no/such\.txt \(--prefix\)"):
        pair([b"a"], "no/such.txt")
