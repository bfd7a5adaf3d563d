"""Line I/O: reading lines, refused files, and atomic writing."""

import bz2
import contextlib
import gzip
import io
import itertools
import lzma
import os
import sys

import pytest
import zstandard

from t2t_keras.errors import MissingPackage, UserError
from t2t_keras.files.lines import (
    check_outputs,
    check_standard_input,
    chunks,
    open_input,
    open_output,
    open_prefixes,
    prepare_standard_streams,
)
from t2t_keras.files.text_checks import CountedLines

TEXT = "a b\n\u2028 \x0b\r\n\n\ufeffz\r.".encode()


def read_all(path, **named):
    with open_input(str(path), **named) as lines:
        return list(lines)


def pack_frames(content):
    """Packs in frames of seven bytes, the last one empty, as pzstd and cat do."""
    packer = zstandard.ZstdCompressor(write_checksum=True)
    parts = [content[i : i + 7] for i in range(0, len(content) + 7, 7)]
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"size"
    return b"".join(skipped + packer.compress(part) for part in parts)


PACKERS = (
    ("gzip", gzip.compress),
    ("xz", lzma.compress),
    ("bzip2", bz2.compress),
    ("zstd", zstandard.ZstdCompressor(write_checksum=True).compress),
)


@pytest.mark.parametrize("source", ["file", "standard input", "pipe"])
@pytest.mark.parametrize("pack", [bytes, pack_frames, *(p for _, p in PACKERS)])
def test_one_reader_of_text(tmp_path, monkeypatch, pack, source):
    """Nothing but LF and CRLF ends a line; a mark is no text, but within one it is."""
    path, content = tmp_path / "text.gz", pack(b"\xef\xbb\xbf" + TEXT)
    expected = [b"a b", "\u2028 \x0b".encode(), b"", b"\xef\xbb\xbfz\r."]
    if source == "pipe":
        reader, writer = os.pipe()
        os.write(writer, content)
        os.close(writer)
        path = f"/dev/fd/{reader}"
    elif source == "file":
        path.write_bytes(content)
    else:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        path = "-"
    assert read_all(path) == expected
    if source == "pipe":
        os.close(reader)


def test_a_pipe_is_read_line_by_line_and_not_before_it_is_wanted():
    reader, writer = os.pipe()
    with open_input(f"/dev/fd/{reader}") as lines:
        for text in (b"a", b"b"):
            os.write(writer, text + b"\n")
            assert next(lines) == text
        os.close(writer)
        assert list(lines) == []
    os.close(reader)


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing", r"no file .* \(--target\)"), (".", r"a folder, not .*\(--target\)")],
)
def test_what_is_no_file_is_refused(tmp_path, name, message):
    with pytest.raises(UserError, match=message):
        read_all(tmp_path / name, flag="target")


@pytest.mark.parametrize(("kind", "pack"), PACKERS)
def test_a_damaged_file_is_refused(tmp_path, kind, pack):
    path, whole = tmp_path / "text", pack(os.urandom(999))
    for damaged in (whole[:12], whole[:-1], whole[:20] + b"\xff" * 40 + whole[60:]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=f"text is a damaged or incomplete {kind} "):
            read_all(path)


def test_large_and_many_frames_of_zstd_are_read_in_parts(tmp_path):
    path, text = tmp_path / "text", b"a line\n" * 300_000
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(text) * 2)
    assert read_all(path) == [b"a line"] * 600_000


def test_without_its_package_zstd_is_refused_and_other_text_is_read(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "text"
    path.write_bytes(gzip.compress(b"a"))
    assert read_all(path) == [b"a"]
    path.write_bytes(zstandard.ZstdCompressor().compress(b"a"))
    with pytest.raises(
        MissingPackage, match=r'\(zstandard\): .*"t2t_keras\[formats\]"'
    ):
        read_all(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("süß\n".encode("utf-16"), "text in UTF-16"),
        ("süß\n".encode("utf-32"), "text in UTF-32"),
        # Without the time, which would give the test another name in each worker.
        (
            gzip.compress("süß\n".encode("utf-16"), mtime=0),
            "text in UTF-16, but must be",
        ),
        (bytes.fromhex("04224d18 6470"), "compressed by lz4, .* Convert .* lz4 -d"),
        (b"PK\x03\x04\x14", "a zip archive, .* name it .zip"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"PAR1\x15\x04", "a table in Parquet, .* name it .parquet"),
        (lzma.compress(b"a\0\n".ljust(257, b"\0") + b"ustar\0"), "a tar archive"),
    ],
)
def test_what_is_no_text_is_refused_when_it_is_opened(tmp_path, content, message):
    path = tmp_path / "text"
    path.write_bytes(content)
    with (
        pytest.raises(UserError, match=f"text is {message}"),
        open_input(str(path)),
    ):
        raise AssertionError


def test_standard_input_has_three_names():
    check_standard_input([("input", "-"), ("prefix", None)])
    for name in ("-", "/dev/stdin", "/dev/fd/0"):
        with pytest.raises(UserError, match="for --input and --prefix"):
            check_standard_input([("input", "-"), ("prefix", name)])


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


def test_a_full_device_is_named():
    with pytest.raises(OSError, match=r"No space.*'/dev/full'"):
        with open_output("/dev/full") as file:
            file.write("x")


def test_any_character_can_be_printed_and_translations_stay_utf8(monkeypatch):
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    prepare_standard_streams()
    print("≤ \udcff")
    with open_output("-") as file:
        file.write("≤")
    assert written.getvalue() == b"\\u2264 \\udcff\n" + "≤".encode()


def test_closed_streams_take_messages_and_no_results(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
        monkeypatch.setattr(sys, f"__{name}__", None)
    prepare_standard_streams()
    print("nowhere", file=sys.stdout, flush=True)
    print("nowhere", file=sys.stderr, flush=True)
    assert sys.stdin.read() == ""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()
    for use, message in (
        (lambda: open_output("-").__enter__(), "output is closed"),
        (lambda: check_outputs("-", None), "output is closed"),
        (lambda: open_input("-").__enter__(), "input is closed"),
        (lambda: check_standard_input([("a", "-")]), r"input is closed \(--a=-\)"),
    ):
        with pytest.raises(UserError, match=message):
            use()


def test_lines_that_are_not_utf8_are_counted_and_passed_on():
    # An overlong form, a surrogate, a single byte, and well-formed lines.
    invalid = [b"\xc0\x80", b"a\xed\xa0\x80", b"\xff b"]
    lines = [*invalid, b"", "ü".encode(), *[b"\xef\xbf\xbd"] * 55]
    counted = CountedLines(lines, "a.txt")
    assert list(itertools.islice(counted, 0)) == []
    assert counted.warning == ""
    assert list(counted) == lines
    assert "3 of 60 lines are not valid UTF-8" in counted.warning
    assert CountedLines(lines[3:], "a.txt").warning == ""


@pytest.mark.parametrize(
    ("lines", "first", "is_refused"),
    [
        ([b"\xff"], None, False),  # one line tells nothing
        ([b"\xff", b"a\0"], None, True),
        ([b"\xff"] * 5 + [b"a"] * 95, None, False),
        ([b"\xff"] * 6 + [b"a"] * 94, None, True),
        ([b"a\0"] * 6 + [b"a"] * 94, None, True),
        ([b"\xff"] * 5 + [b"a"] * 95, 10, True),
        ([b"a"] * 10 + [b"\xff"] * 5, 10, False),
        ([b"a"] * 8 + [b"\xff"] * 2, 99, True),
    ],
)
def test_what_has_many_lines_that_are_no_text_is_refused(lines, first, is_refused):
    found: list[bytes] = []
    with pytest.raises(UserError) if is_refused else contextlib.nullcontext() as error:
        found.extend(CountedLines(lines, "a.txt", first))
    assert (found == lines) != (is_refused and first == 10)
    if error:
        assert "a.txt is not text in UTF-8" in str(error.value)
        assert ("-f UTF-16LE" in str(error.value)) == (b"\xff" not in lines)


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
        (b"\xff\n\xff\nz\n", "prefixes.txt is not text in UTF-8: 2 of 3 lines"),
    ):
        path.write_bytes(text)
        with pytest.raises(UserError) as caught:
            pair([b"a", b"b", b"c"], str(path))
        assert message in str(caught.value)
    with pytest.raises(UserError, match=r"no file no/such\.txt \(--prefix\)"):
        pair([b"a"], "no/such.txt")
