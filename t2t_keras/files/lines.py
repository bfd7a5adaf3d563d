"""Text lines: reading and writing of files, gzip, standard input and output."""

import contextlib
import gzip
import itertools
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

from t2t_keras.errors import UserError
from t2t_keras.files.atomic import atomic_file

_Item = TypeVar("_Item")

# A line and the beginning of its translation, which may be empty.
Line: TypeAlias = tuple[str | bytes, str | bytes]


@contextlib.contextmanager
def open_input(path: str, flag: str = "input") -> Iterator[IO[bytes]]:
    """Yields standard input for "-", or a file, plain or .gz.

    Args:
        path: The file.
        flag: Name of the flag with the path, for the message.

    Raises:
        UserError: If the file is missing or damaged. Damage may be found only at the
            end of the file.
    """
    if path == "-":
        yield sys.stdin.buffer
        return
    if not Path(path).is_file():
        raise UserError(f"There is no file {path} (--{flag}).")
    opened: Any = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
    try:
        with opened as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is a damaged or incomplete gzip file ({error}). Copy or "
            "download it again."
        ) from error


def strip_line_ends(source: IO[bytes]) -> Iterator[bytes]:
    """Yields lines without their LF. Only LF ends a line."""
    for line in source:
        yield line.removesuffix(b"\n")


def is_utf8(line: bytes) -> bool:
    """Returns whether bytes are valid UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def invalid_utf8_warning(invalid: int, lines: int) -> str:
    """Returns a warning about lines that are not valid UTF-8; "" if there are none."""
    if not invalid:
        return ""
    return (
        f"{invalid} of {lines} lines are not valid UTF-8; their invalid bytes are "
        "read as U+FFFD."
    )


class CountedLines:
    """Iterator over lines that counts them, and those that are not valid UTF-8.

    Args:
        lines: The lines, which pass through unchanged.
    """

    def __init__(self, lines: Iterable[bytes]):
        self._lines = lines
        self._count = self._invalid = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self._count += 1
            self._invalid += not is_utf8(line)
            yield line

    @property
    def warning(self) -> str:
        """Warning about the lines so far; "" if all are valid UTF-8."""
        return invalid_utf8_warning(self._invalid, self._count)


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
        if not isinstance(pair[1], str | bytes):
            raise UserError(
                f"The prefix of line {number + 1} must be a text. Received: {pair[1]!r}"
            )
        yield pair


def open_prefixes(
    lines: Iterable[bytes], prefix: str | None, stack: contextlib.ExitStack
) -> Iterator[Line]:
    """Returns an iterator over lines with their prefixes.

    Args:
        lines: Lines of a file.
        prefix: "column" if each line has its prefix after a tab; path of a file with
            prefixes; None for empty ones.
        stack: Closes the file.

    Raises:
        UserError: If the file is missing, or later if it has not as many lines.
    """
    if prefix is None:
        return ((line, b"") for line in lines)
    if prefix == "column":
        parts = (line.partition(b"\t") for line in lines)
        return ((text, beginning) for text, _, beginning in parts)
    file = stack.enter_context(open_input(prefix, "prefix"))
    return pair_prefixes(lines, strip_line_ends(file))


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
    """Raises `UserError` if standard input, "-", would be read twice.

    Args:
        names: Flag and name of each file to read.
    """
    flags = [f"--{flag}" for flag, name in names if name == "-"]
    if len(flags) > 1:
        raise UserError(
            f"Standard input can be read once. Received: - for {' and '.join(flags)}. "
            "Give files for the others."
        )


def check_outputs(translations: str, alignments: str | None) -> None:
    """Raises `UserError` if --output and --alignments name the same file."""
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
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore
        yield sys.stdout
        return
    if Path(path).exists() and not Path(path).is_file():
        # Devices and pipes are written to, not replaced.
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    path = os.path.realpath(path)
    with contextlib.ExitStack() as stack:
        output = atomic_file(Path(path), "w", encoding="utf-8", newline="\n")
        try:
            file = stack.enter_context(output)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}.") from error
        yield file
