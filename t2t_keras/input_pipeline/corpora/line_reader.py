"""Reading of any lines of a corpus, as bytes that other processes split and repair.

The process that reads only finds line ends, so it can keep many others busy.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.lines import TextBytes, without_mark
from t2t_keras.files.text_checks import is_utf8
from t2t_keras.input_pipeline.corpora.line_index import (
    RANGE_BYTES,
    IndexedFile,
    IndexedText,
)
from t2t_keras.input_pipeline.corpora.parallel_text import repair
from t2t_keras.input_pipeline.corpora.tsv import check_columns

# Lines, and bytes of a side, that are read at a time.
_MOST_LINES = 4096
_MOST_BYTES = 1 << 19


@dataclasses.dataclass(frozen=True)
class RawLines:
    """Consecutive lines of parallel text as they are stored.

    Attributes:
        first: Number of the first line in its corpus, from 0.
        count: Number of lines.
        sides: Source and target, or both in columns; each line ends with LF.
    """

    first: int
    count: int
    sides: tuple[bytes, ...]

    def split(self) -> tuple[list[bytes], list[bytes]]:
        """Returns the source and the target of each line, well-formed UTF-8."""
        sides = [_split_lines(side) for side in self.sides]
        if len(sides) == 1:
            numbered = enumerate(sides[0], self.first + 1)
            pairs = [check_columns("The text", n, line) for n, line in numbered]
            sides = [[pair[side] for pair in pairs] for side in (0, 1)]
        return sides[0], sides[1]


def _split_lines(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    lines.pop()
    if b"\r" in text:
        lines = [line.removesuffix(b"\r") for line in lines]
    return lines if is_utf8(text) else [*map(repair, lines)]


class LineReader(Protocol):
    """A corpus whose lines can be read from any on; forwards it is fast."""

    @property
    def num_lines(self) -> int:
        """Number of lines, with those that have no text on a side."""
        ...

    def read(self, begin: int, end: int) -> Iterator[RawLines]:
        """Yields lines `begin` to `end`, in order."""
        ...

    def close(self) -> None:
        """Closes what is open."""
        ...


class FileReader:
    """Reads lines of text files that are indexed."""

    def __init__(self, text: IndexedText):
        self._text = text
        self.num_lines = text.lines
        self._opened: tuple[int, list[_Cursor]] = (-1, [])

    def read(self, begin: int, end: int) -> Iterator[RawLines]:
        """Yields lines `begin` to `end`, in order.

        Raises:
            UserError: If a file has become shorter, or cannot be read.
        """
        first = 0
        for number, group in enumerate(self._text.files):
            lines = group[0].lines
            own_begin = max(begin - first, 0)
            own_end = min(end - first, lines)
            if own_begin < own_end:
                cursors = self._open(number)
                for cursor in cursors:
                    cursor.seek(own_begin)
                yield from _read_together(cursors, first + own_begin, first + own_end)
            first += lines

    def close(self) -> None:
        """Closes the files that are open."""
        for cursor in self._opened[1]:
            cursor.close()
        self._opened = (-1, [])

    def _open(self, number: int) -> "list[_Cursor]":
        if self._opened[0] != number:
            self.close()
            self._opened = number, [_Cursor(file) for file in self._text.files[number]]
        return self._opened[1]


def _read_together(
    cursors: "list[_Cursor]", begin: int, end: int
) -> Iterator[RawLines]:
    while begin < end:
        count = cursors[0].count_next(min(end - begin, _MOST_LINES))
        sides = tuple(cursor.take(count) for cursor in cursors)
        yield RawLines(begin, count, sides)
        begin += count


class _Cursor:
    """A place between two lines of a file."""

    def __init__(self, file: IndexedFile):
        self._file = file
        self._stream = TextBytes(file.path)
        self._buffer = b""
        self._ends = np.zeros(0, np.int64)
        """Ends of the complete lines in the buffer."""
        self._next = 0
        """Number of the next line in the buffer."""
        self._line = 0
        """Number of the next line in the file."""
        self._is_at_end = False
        self._start()

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()

    def seek(self, line: int) -> None:
        """Continues at a line."""
        number, begun = self._file.find(line)
        if number and (line < self._line or begun > self._line):
            # The line that begins first in the range begins after a line end.
            self._stream.seek(number * RANGE_BYTES - 1)
            self._line = begun - 1
            self._buffer, self._is_at_end = b"", False
            self._find_ends()
        elif line < self._line:
            self.close()
            self._stream = TextBytes(self._file.path)
            self._start()
        while self._line < line:
            self.take(min(line - self._line, _MOST_LINES))

    def _start(self) -> None:
        """Goes to the first line of a file that has just been opened."""
        self._line, self._buffer, self._is_at_end = 0, b"", False
        self._next = 0
        self._fill()
        self._buffer = without_mark(self._buffer)
        self._find_ends()

    def count_next(self, most: int) -> int:
        """Returns how many of the next lines to take at a time, at least one."""
        self._fill_to(1)
        begin = self._begin()
        within = int(np.searchsorted(self._ends, begin + _MOST_BYTES, side="right"))
        return max(1, min(most, within - self._next))

    def take(self, count: int) -> bytes:
        """Returns the next lines, each with LF at its end.

        Raises:
            UserError: If the file has not so many.
        """
        parts = []
        self._line += count
        while count:
            self._fill_to(1)
            own = min(count, len(self._ends) - self._next)
            begin = self._begin()
            self._next += own
            parts.append(self._buffer[begin : self._begin()])
            count -= own
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _begin(self) -> int:
        """Returns the place of the next line in the buffer."""
        return int(self._ends[self._next - 1]) if self._next else 0

    def _fill_to(self, lines: int) -> None:
        while len(self._ends) - self._next < lines:
            if self._is_at_end:
                raise UserError(
                    f"{self._file.path} had {self._file.lines:,} lines when they were "
                    "counted, and has fewer now. Do not change the text meanwhile, and "
                    "run the command again."
                )
            self._fill()
            self._find_ends()

    def _fill(self) -> None:
        """Reads more after what is left of the buffer."""
        more = self._stream.read(RANGE_BYTES)
        self._buffer = self._buffer[self._begin() :] + more
        if not more:
            self._is_at_end = True
            if self._buffer and not self._buffer.endswith(b"\n"):
                self._buffer += b"\n"

    def _find_ends(self) -> None:
        characters = np.frombuffer(self._buffer, np.uint8)
        self._ends = np.flatnonzero(characters == ord("\n")) + 1
        self._next = 0


class ChunkReader:
    """Reads lines of a corpus that has to be read from its beginning.

    Args:
        open_chunks: Opens its lines, many at a time.
        num_lines: Number of them.
    """

    def __init__(
        self,
        open_chunks: Callable[[], Iterator[tuple[list[bytes], list[bytes]]]],
        num_lines: int,
    ):
        self.num_lines = num_lines
        self._open_chunks = open_chunks
        self._chunks = iter(open_chunks())
        self._place = 0
        """Number of the line after the newest chunk."""
        self._newest: tuple[list[bytes], list[bytes]] = ([], [])

    def read(self, begin: int, end: int) -> Iterator[RawLines]:
        """Yields lines `begin` to `end`, in order.

        Raises:
            UserError: If there are fewer, or they cannot be read.
        """
        if begin < self._place - len(self._newest[0]):
            self._chunks, self._place, self._newest = self._open_chunks(), 0, ([], [])
        while begin < end:
            while self._place <= begin:
                self._read_chunk()
            skipped = begin - (self._place - len(self._newest[0]))
            own = slice(skipped, skipped + end - begin)
            source, target = (side[own] for side in self._newest)
            yield RawLines(begin, len(source), (_join(source), _join(target)))
            begin += len(source)

    def close(self) -> None:
        """Closes what is open."""
        self._chunks = iter(())

    def _read_chunk(self) -> None:
        chunk = next(self._chunks, None)
        if chunk is None:
            raise UserError(
                f"The text had {self.num_lines:,} pairs when it was first read, and "
                f"{self._place:,} when it was encoded. Do not change it meanwhile, "
                "and run the command again."
            )
        self._newest = chunk
        self._place += len(chunk[0])


class JoinedReader:
    """Reads lines of several corpora, one after another."""

    def __init__(self, readers: Sequence[LineReader]):
        self.num_lines = sum(reader.num_lines for reader in readers)
        self._readers = readers

    def read(self, begin: int, end: int) -> Iterator[RawLines]:
        """Yields lines `begin` to `end`, in order."""
        first = 0
        for reader in self._readers:
            own_begin = max(begin - first, 0)
            own_end = min(end - first, reader.num_lines)
            if own_begin < own_end:
                for lines in reader.read(own_begin, own_end):
                    yield dataclasses.replace(lines, first=first + lines.first)
            first += reader.num_lines

    def close(self) -> None:
        """Closes what is open."""
        for reader in self._readers:
            reader.close()


def _join(lines: list[bytes]) -> bytes:
    # A line break within a sentence is a space to a vocabulary.
    return b"".join(line.replace(b"\n", b" ") + b"\n" for line in lines)
