"""Text lines: the one reader of text files and standard input, and the writer."""

import bz2
import contextlib
import gzip
import io
import itertools
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

from t2t_keras.errors import UserError, check_text
from t2t_keras.files.atomic import STANDARD_OUTPUT, atomic_file, explain, name_in_errors
from t2t_keras.files.remote import as_path, is_url, open_remote
from t2t_keras.files.text_checks import CountedLines, title_of
from t2t_keras.files.zstd import open_zstd

_Item = TypeVar("_Item")

# A line and the beginning of its translation, which may be empty.
Line: TypeAlias = tuple[str | bytes, str | bytes]

# The byte order mark of UTF-8.
_MARK = b"\xef\xbb\xbf"
_STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0")
# First bytes of what is decompressed, and of what is refused as no text. A file of zstd
# may begin with a frame to skip, as those of pzstd do.
_COMPRESSED: tuple[tuple[bytes, str, Any], ...] = (
    (rb"\x1f\x8b", "gzip", gzip.open),
    (rb"\xfd7zXZ\0", "xz", lzma.open),
    (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2", bz2.open),
    (rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", "zstd", open_zstd),
)
_REFUSED = (
    (rb"\xff\xfe\0\0|\0\0\xfe\xff", "text in UTF-32", "iconv -f UTF-32 -t UTF-8"),
    (rb"\xff\xfe|\xfe\xff", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (rb"\x04\x22\x4d\x18", "compressed by lz4", "lz4 -d"),
    (rb"PK\x03\x04", "a zip archive", "unzip; as sentence pairs of OPUS, name it .zip"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x"),
    (rb"(?s).{257}ustar", "a tar archive", "tar -xf"),
    (
        rb"PAR1\x15",
        "a table in Parquet",
        "pandas.read_parquet; as sentence pairs, name it .parquet",
    ),
)
# Endings of files that hold both sides of sentence pairs.
_TWO_SIDED = (".tsv", ".jsonl", ".json", ".parquet", ".tmx", ".zip", ".mrg")
_BLOCK = 1 << 16
_FIRST_BYTES = 512


def text_suffix(path: str | os.PathLike[str]) -> str:
    """Returns the ending of a text file's name, before that of its compression."""
    return Path(re.sub(r"\.(gz|xz|bz2|zst)$", "", os.fspath(path))).suffix


def holds_both_sides(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file, by its name, has source and target: columns or trees."""
    return text_suffix(path) in _TWO_SIDED


def check_input(path: str, flag: str = "") -> None:
    """Raises `UserError` if there is no file, pipe or device to read for a flag."""
    where = f" (--{flag})" if flag else ""
    file = as_path(path)
    if file.is_dir():
        raise UserError(f"{path} is a folder, not a file of text{where}.")
    if not file.exists():
        raise UserError(f"There is no file {path}{where}.")


def prepare_standard_streams() -> None:
    """Makes standard streams that any message can be printed to, in every locale.

    Characters that the encoding of a stream lacks are escaped. A stream that the caller
    closed becomes an empty one, whose descriptor no other file can get.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            # The lowest descriptor that is free is the one that was closed.
            empty = os.open(os.devnull, os.O_RDWR)
            mode = "w" if descriptor else "r"
            setattr(sys, name, open(empty, mode, encoding="utf-8"))
        elif descriptor and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def check_standard_stream(name: str, flag: str) -> None:
    """Raises `UserError` if the caller closed "stdin" or "stdout", named by a flag."""
    if getattr(sys, f"__{name}__") is None:
        raise UserError(
            f"Standard {name.removeprefix('std')}put is closed (--{flag}=-). Give a "
            "file, or leave it open."
        )


@contextlib.contextmanager
def open_input(path: str, flag: str = "") -> Iterator[Iterator[bytes]]:
    """Yields the lines of a text: a file, a pipe or device, or "-" for standard input.

    LF and CRLF end a line and are removed, nothing else does. So is a byte order mark
    at the start. What gzip, xz, bzip2 or zstd has compressed is recognized by its first
    bytes and decompressed.

    Args:
        path: The file.
        flag: Name of the flag with the path, for the message.

    Raises:
        UserError: If the file is missing, cannot be read, is damaged, or begins like
            UTF-16 or a binary format. Damage may be found only at the end of a file. A
            pipe is looked at when its first line is wanted.
    """
    with _open_file(path, flag) as file:
        if file.seekable() and not file.isatty():
            yield split_lines(file, path)
        else:
            yield _split_when_read(file, path)


@contextlib.contextmanager
def open_blocks(path: str) -> Iterator[Iterator[bytes]]:
    """Yields the bytes of a file, decompressed as in `open_input`, in blocks.

    For a format such as XML, which says in what encoding it is and needs no lines.

    Raises:
        UserError: If the file is missing, cannot be read, or is damaged.
    """

    def blocks() -> Iterator[bytes]:
        with _explained_faults(path, kind):
            while block := file.read(_BLOCK):
                yield block

    with _open_file(path) as opened:
        file, kind, _ = _decompress(opened, path)
        yield blocks()


@contextlib.contextmanager
def _open_file(path: str, flag: str = "") -> Iterator[Any]:
    """Yields a file, or standard input, that can be looked into before it is read."""
    opened: Any
    if path == "-":
        check_standard_stream("stdin", flag)
        opened = contextlib.nullcontext(sys.stdin.buffer)
    else:
        check_input(path, flag)
        with _explained_faults(path):
            opened = _open_bytes(path)
    with opened as raw:
        # Any stream may stand in for standard input.
        yield raw if hasattr(raw, "peek") else io.BufferedReader(raw)


def _open_bytes(path: str) -> io.BufferedReader:
    return open_remote(path) if is_url(path) else open(path, "rb")


def _decompress(file: Any, path: str) -> tuple[Any, str, bytes]:
    """Returns a file, decompressed, its compression, and its first bytes."""
    with _explained_faults(path):
        begin = file.peek(_FIRST_BYTES)
    kind = ""
    for pattern, name, decompress in _COMPRESSED:
        if re.match(pattern, begin):
            kind, file = name, decompress(file)
            with _explained_faults(path, kind):
                begin = file.peek(_FIRST_BYTES)
    return file, kind, begin


def _split_when_read(file: Any, path: str) -> Iterator[bytes]:
    """Yields the lines of what may have none yet, such as a pipe or a terminal."""
    yield from split_lines(file, path)


def split_lines(file: Any, path: str) -> Iterator[bytes]:
    """Returns the lines of an open file, as in `open_input`, after a look into it.

    Args:
        file: A buffered reader, such as one of a member of an archive.
        path: Its name in messages.

    Raises:
        UserError: If it begins like UTF-16 or a binary format; while reading, if it is
            damaged.
    """
    return _split_lines(*_recognize(file, path))


def _recognize(file: Any, path: str) -> tuple[Any, str, str]:
    """Returns a file of text, decompressed, its path, and its compression."""
    file, kind, begin = _decompress(file, path)
    for pattern, what, tool in _REFUSED:
        if re.match(pattern, begin):
            raise UserError(
                f"{title_of(path)} is {what}, but must be text in UTF-8, plain or "
                f"compressed by gzip, xz, bzip2 or zstd. Convert it, with {tool}."
            )
    return file, path, kind


class TextBytes:
    """Bytes of a file of text, decompressed; it must be closed.

    Args:
        path: The file.

    Raises:
        UserError: As `open_input`; and `read`, for damage.
    """

    def __init__(self, path: str):
        check_input(path)
        self._path = path
        with _explained_faults(path):
            self._raw = _open_bytes(path)
        try:
            self._file, _, self._kind = _recognize(self._raw, path)
        except UserError:
            self._raw.close()
            raise

    @property
    def is_compressed(self) -> bool:
        """Whether the file can only be read from its beginning."""
        return bool(self._kind)

    @property
    def size(self) -> int:
        """Bytes of the file on the disk."""
        return as_path(self._path).stat().st_size

    def seek(self, place: int) -> None:
        """Continues at a byte of a file that is not compressed."""
        self._file.seek(place)

    def read(self, size: int) -> bytes:
        """Returns the next bytes, at most `size`; none at the end."""
        with _explained_faults(self._path, self._kind):
            return self._file.read(size)

    def close(self) -> None:
        """Closes the file."""
        self._raw.close()


def without_mark(begin: bytes) -> bytes:
    """Returns the beginning of a file without a byte order mark."""
    return begin.removeprefix(_MARK)


def _split_lines(file: Any, path: str, kind: str) -> Iterator[bytes]:
    with _explained_faults(path, kind):
        lines = iter(file)
        first = (each.removeprefix(_MARK) for each in itertools.islice(lines, 1))
        for line in itertools.chain(first, lines):
            yield line.removesuffix(b"\n").removesuffix(b"\r")


@contextlib.contextmanager
def _explained_faults(path: str, kind: str = "") -> Iterator[None]:
    """Raises `UserError` for what reading a file of a kind of compression raises."""
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        # Decompression also raises an `OSError`, but without a number.
        if isinstance(error, OSError) and error.errno is not None:
            message = f"{title_of(path)} cannot be read: {error.strerror}."
        else:
            message = (
                f"{title_of(path)} is a damaged or incomplete {kind or 'text'} file "
                f"({error}). Copy or download it again."
            )
        raise UserError(message) from error


def read_text(path: str | Path, name: str = "", what: str = "text in UTF-8") -> str:
    """Returns the text of a file of settings, without a byte order mark.

    Args:
        path: The file.
        name: Name of the file in messages. Default: its path.
        what: Its contents in messages.

    Raises:
        UserError: If it cannot be read, or is not valid UTF-8.
    """
    try:
        with open_input(os.fspath(path)) as lines:
            return "".join(f"{line.decode('utf-8')}\n" for line in lines)
    except (UserError, UnicodeDecodeError) as error:
        raise UserError(f"{name or path} cannot be read as {what}: {error}") from error


def pair_prefixes(
    lines: Iterable[str | bytes], prefixes: Iterable[str | bytes]
) -> Iterator[Line]:
    """Yields each line with its prefix.

    Raises:
        UserError: If there are not as many prefixes as lines, or one is not a text.
    """
    end: Any = object()
    pairs = itertools.zip_longest(lines, prefixes, fillvalue=end)
    for number, pair in enumerate(pairs):
        if end in pair:
            ended, other = (
                ("lines", "prefixes") if pair[0] is end else ("prefixes", "lines")
            )
            raise UserError(
                f"There are {number} {ended} but more {other}. Each line needs its "
                "prefix, which may be empty."
            )
        check_text(f"The prefix of line {number + 1}", pair[1])
        yield pair


def open_prefixes(
    lines: Iterable[bytes],
    prefix: str | None,
    stack: contextlib.ExitStack,
    first: int | None = None,
) -> Iterator[Line]:
    """Returns an iterator over lines with their prefixes.

    Args:
        lines: Lines of a file.
        prefix: "column" if each line has its prefix after a tab; path of a file with
            prefixes; None for empty ones.
        stack: Closes the file.
        first: Number of its lines that tell whether it is text, as in `CountedLines`.

    Raises:
        UserError: If the file is missing, or later if it is no text or has not as many
            lines.
    """
    if prefix is None:
        return ((line, b"") for line in lines)
    if prefix == "column":
        parts = (line.partition(b"\t") for line in lines)
        return ((text, beginning) for text, _, beginning in parts)
    prefixes = stack.enter_context(open_input(prefix, "prefix"))
    return pair_prefixes(lines, CountedLines(prefixes, prefix, first))


def line_seed(seed: int, number: int) -> int:
    """Returns the seed of a line's random numbers, 64 bits.

    Args:
        seed: Seed of all lines, from 0 to 2^31 - 1.
        number: Number of the line, from 1.
    """
    return (seed << 32) + number % 2**32


def chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yields lists of `size` items; the last list may be shorter."""
    items = iter(items)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def check_standard_input(names: Iterable[tuple[str, str | None]]) -> None:
    """Raises `UserError` if "-" is closed, or is the file of two of the flags."""
    flags = [f"--{flag}" for flag, name in names if name in _STANDARD_INPUT]
    if len(flags) > 1:
        raise UserError(
            f"Standard input can be read once. Received: - for {' and '.join(flags)}. "
            "Give files for the others."
        )
    for flag in flags:
        check_standard_stream("stdin", flag.removeprefix("--"))


def check_outputs(translations: str, alignments: str | None) -> None:
    """Raises `UserError` if --output is closed, or the same file as --alignments."""
    if translations == "-":
        check_standard_stream("stdout", "output")
    if alignments is not None and (
        os.path.realpath(translations) == os.path.realpath(alignments)
    ):
        raise UserError(
            "--alignments needs a file of its own, but --output is the same. Received: "
            f"{alignments} for both"
        )


@contextlib.contextmanager
def open_output(path: str) -> Iterator[IO[str]]:
    """Yields standard output for "-", or a file that appears when it is complete.

    Raises:
        UserError: If the file cannot be created.
    """
    if path == "-":
        check_standard_stream("stdout", "output")
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore
        with name_in_errors(STANDARD_OUTPUT):
            yield sys.stdout
        return
    if is_url(path):
        raise UserError(
            f"{path} is on an object store, where nothing but records is written. Give "
            "a path of a file system."
        )
    if Path(path).exists() and not Path(path).is_file():
        # Devices and pipes are written to, not replaced.
        with (
            name_in_errors(path),
            open(path, "w", encoding="utf-8", newline="\n") as file,
        ):
            yield file
        return
    path = os.path.realpath(path)
    with contextlib.ExitStack() as stack:
        output = atomic_file(Path(path), "w", encoding="utf-8", newline="\n")
        try:
            file = stack.enter_context(output)
        except OSError as error:
            raise UserError(explain(error, "written")) from error
        yield file
