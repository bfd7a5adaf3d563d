"""Index of text files: where their lines are, without reading them all again.

Counting passes once over the bytes, in ranges of plain files side by side, and checks
what can be wrong with a file as a whole. A compressed file can only be read from its
beginning. Afterwards any line can be found, so that a corpus can be read in parts
(ADR 0033).
"""

import bisect
import concurrent.futures
import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files.lines import TextBytes, text_suffix
from t2t_keras.files.text_checks import check_is_text, invalid_utf8_warning, is_utf8
from t2t_keras.input_pipeline.corpora.parallel_text import other_line_count_error
from t2t_keras.input_pipeline.corpora.tsv import check_columns
from t2t_keras.text.normalization import is_blank

RANGE_BYTES = 1 << 20
"""Finding a line reads one such range."""
# Bytes that one thread counts at a time.
_RANGES_PER_PIECE = 256


@dataclasses.dataclass(frozen=True)
class IndexedFile:
    """Lines of a file.

    Attributes:
        path: The file.
        size: Its bytes on the disk.
        lines: Number of its lines.
        invalid: Number of them that are not valid UTF-8.
        digest: SHA-256 of the digests of its pieces, after decompression.
        begun: Number of lines that begin before each range of `RANGE_BYTES`; none for a
            compressed file, which has no place to begin at.
    """

    path: str
    size: int
    lines: int
    invalid: int
    digest: str
    begun: tuple[int, ...]

    def find(self, line: int) -> tuple[int, int]:
        """Returns the number of a range, and of the first line that begins in it.

        The line begins in that range or after it.
        """
        number = max(bisect.bisect_right(self.begun, line) - 1, 0)
        return number, self.begun[number] if self.begun else 0


@dataclasses.dataclass(frozen=True)
class IndexedText:
    """Lines of parallel files, one after another."""

    files: tuple[tuple[IndexedFile, ...], ...]
    """Source and target file, or one file with both sides in columns."""

    @property
    def lines(self) -> int:
        """Number of lines of all files."""
        return sum(group[0].lines for group in self.files)

    @property
    def sha256(self) -> str:
        """Hash of the contents of the files, whatever their names and compression."""
        parts = [f"{file.lines} {file.digest}" for each in self.files for file in each]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def warnings(self) -> list[str]:
        """Returns a warning if lines are not valid UTF-8."""
        invalid = sum(file.invalid for group in self.files for file in group)
        warning = invalid_utf8_warning(invalid, self.lines)
        return [warning] if warning else []

    def to_json(self) -> list[list[dict[str, Any]]]:
        """Returns fields for JSON, which `from_json` reads."""
        return [[dataclasses.asdict(file) for file in group] for group in self.files]

    @classmethod
    def from_json(cls, fields: Any, paths: Sequence[Sequence[Path]]) -> "IndexedText":
        """Returns the text with these fields, read from files at other paths.

        Raises:
            UserError: If there are not as many files, or one has another size.
        """
        expected = [[file["path"] for file in group] for group in fields]
        if [len(group) for group in expected] != [len(group) for group in paths]:
            raise UserError(
                "The text has other files than when it was counted: "
                f"{_join_names(paths)}, expected {_join_names(expected)}. Give the "
                "same files, or start again in another --output."
            )
        files = tuple(
            tuple(_same_file(file, path) for file, path in zip(group, own, strict=True))
            for group, own in zip(fields, paths, strict=True)
        )
        return cls(files)


def _join_names(groups: Sequence[Sequence[Any]]) -> str:
    return ", ".join(str(path) for group in groups for path in group)


def _same_file(fields: Mapping[str, Any], path: Path) -> IndexedFile:
    check_size(path, fields["size"])
    return IndexedFile(**{**fields, "path": str(path), "begun": tuple(fields["begun"])})


def check_size(path: Path, expected: int) -> None:
    """Raises `UserError` if a file has not the size that it had when it was counted."""
    size = path.stat().st_size
    if size != expected:
        raise UserError(
            f"{path} has {size:,} bytes, and had {expected:,} when its lines were "
            "counted. Give the same file, or start again in another --output."
        )


def index_text(
    groups: Sequence[Sequence[Path]],
    workers: int,
    on_progress: Callable[[int, int], None],
) -> IndexedText:
    """Returns the lines of parallel files, after a pass over all of them.

    Args:
        groups: Source and target file, or one file with both sides, one after another.
        workers: Number of threads.
        on_progress: Called with the bytes that have been counted, and with all.

    Raises:
        UserError: If a file cannot be read, is cut short or is no text in UTF-8; if two
            files that belong together have different numbers of lines; or if a line of
            a TSV file has not exactly two columns.
    """
    paths = list(dict.fromkeys(path for group in groups for path in group))
    tasks = [task for path in paths for task in _pieces(path)]
    total = sum(task.size for task in tasks)
    done = 0
    pieces: dict[Path, list[_Piece]] = {path: [] for path in paths}
    with concurrent.futures.ThreadPoolExecutor(workers) as threads:
        try:
            for task, piece in zip(tasks, threads.map(_count, tasks), strict=True):
                pieces[task.path].append(piece)
                done += task.size
                on_progress(done, total)
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    files = {path: _join_pieces(path, each) for path, each in pieces.items()}
    for group in groups:
        counts = [files[path].lines for path in group]
        if len(set(counts)) > 1:
            raise other_line_count_error(group[0], group[1], counts[0], counts[1])
    return IndexedText(tuple(tuple(files[path] for path in each) for each in groups))


@dataclasses.dataclass(frozen=True)
class _Task:
    path: Path
    first: int
    """Number of its first range."""
    ranges: int | None
    """None for all that follow."""
    size: int


@dataclasses.dataclass(frozen=True)
class _Piece:
    """Lines that begin in some ranges."""

    counts: list[int]
    """Of each range."""
    invalid: int
    with_nul: int
    digests: list[str]
    fault: tuple[int, bytes] | None
    """First line that has not two columns, by its number in the piece, and its text."""
    is_compressed: bool


def _pieces(path: Path) -> Iterator[_Task]:
    file = TextBytes(str(path))
    try:
        size, is_compressed = file.size, file.is_compressed
    finally:
        file.close()
    step = RANGE_BYTES * _RANGES_PER_PIECE
    if is_compressed or size <= step:
        yield _Task(path, 0, None, size)
        return
    for number, begin in enumerate(range(0, size, step)):
        piece_size = min(step, size - begin)
        yield _Task(path, number * _RANGES_PER_PIECE, _RANGES_PER_PIECE, piece_size)


def _count(task: _Task) -> _Piece:
    """Counts and checks the lines that begin in some ranges of a file."""
    is_table = text_suffix(task.path) == ".tsv"
    counts: list[int] = []
    digests: list[str] = []
    digest = hashlib.sha256()
    invalid = with_nul = 0
    fault = None
    file = TextBytes(str(task.path))
    try:
        for number, body in enumerate(_bodies(file, task)):
            if number and number % _RANGES_PER_PIECE == 0:
                digests.append(digest.hexdigest())
                digest = hashlib.sha256()
            digest.update(body)
            lines = body.count(b"\n") + (body[-1:] not in (b"", b"\n"))
            if is_table and fault is None:
                fault = _find_fault(body, lines, sum(counts))
            counts.append(lines)
            bad = _count_bad(body)
            invalid, with_nul = invalid + bad[0], with_nul + bad[1]
    finally:
        file.close()
    digests.append(digest.hexdigest())
    return _Piece(counts, invalid, with_nul, digests, fault, file.is_compressed)


def _bodies(file: TextBytes, task: _Task) -> Iterator[bytes]:
    """Yields the lines that begin in each of the task's ranges."""
    place, buffer = 0, b""
    is_at_end = False
    if task.first:
        place = task.first * RANGE_BYTES - 1
        file.seek(place)
        # A line that begins before belongs to the range before.
        while (cut := buffer.find(b"\n")) < 0 and not is_at_end:
            place += len(buffer)
            buffer = file.read(RANGE_BYTES)
            is_at_end = not buffer
        place, buffer = place + cut + 1, buffer[cut + 1 :]
    last = None if task.ranges is None else task.first + task.ranges
    for number in itertools.count(task.first):
        if number == last or (is_at_end and not buffer):
            return
        end = (number + 1) * RANGE_BYTES
        if place >= end:
            yield b""
            continue
        searched = end - 1 - place
        while (cut := buffer.find(b"\n", searched)) < 0 and not is_at_end:
            more = file.read(RANGE_BYTES)
            searched = max(searched, len(buffer))
            buffer += more
            is_at_end = not more
        cut = len(buffer) if cut < 0 else cut + 1
        if cut:
            yield buffer[:cut]
        place, buffer = place + cut, buffer[cut:]


def _count_bad(body: bytes) -> tuple[int, int]:
    """Returns the numbers of lines that are not valid UTF-8, and of others with NUL."""
    invalid = with_nul = 0
    if not is_utf8(body) or b"\0" in body:
        for line in body.split(b"\n"):
            if not is_utf8(line):
                invalid += 1
            else:
                with_nul += b"\0" in line
    return invalid, with_nul


def _find_fault(body: bytes, lines: int, before: int) -> tuple[int, bytes] | None:
    """Returns the first line that has not two columns; None if all have."""
    characters = np.frombuffer(body, np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    tabs = np.flatnonzero(characters == ord("\t"))
    if len(ends) < lines:
        ends = np.append(ends, len(body))
    if len(tabs) == lines and (tabs < ends).all() and (tabs[1:] > ends[:-1]).all():
        return None
    for number, line in enumerate(body.split(b"\n")[:lines]):
        if line.count(b"\t") != 1 and not is_blank(line):
            return before + number, line
    return None


def _join_pieces(path: Path, pieces: Sequence[_Piece]) -> IndexedFile:
    counts = [count for piece in pieces for count in piece.counts]
    lines = sum(counts)
    before = 0
    for piece in pieces:
        if piece.fault is not None:
            number, line = piece.fault
            check_columns(path, before + number + 1, line.removesuffix(b"\r"))
        before += sum(piece.counts)
    invalid = sum(piece.invalid for piece in pieces)
    check_is_text(str(path), lines, invalid, sum(each.with_nul for each in pieces))
    digests = [digest for piece in pieces for digest in piece.digests]
    is_compressed = any(piece.is_compressed for piece in pieces)
    begun = () if is_compressed else tuple(itertools.accumulate([0, *counts[:-1]]))
    return IndexedFile(
        str(path),
        path.stat().st_size,
        lines,
        invalid,
        hashlib.sha256(" ".join(digests).encode()).hexdigest(),
        begun,
    )
