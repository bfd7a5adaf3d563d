"""Parallel text files: line i of the target translates line i of the source.

Lines end at LF only: a CR, U+0085 or U+2028 inside a line, where `str.splitlines` would
break it, cannot misalign the two sides. `files.lines` reads them.

A file may also hold both sides: .tsv in two columns, .mrg as trees, each of which
counts as a line; JSON lines, Parquet, TMX, or OPUS' zip archives of two text files. A
`TreeReader` converts trees to sentence pairs.
"""

import dataclasses
import glob
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.files.lines import chunks, holds_both_sides, open_input, text_suffix
from t2t_keras.files.paths import expand
from t2t_keras.files.remote import as_path, find_pattern, is_url
from t2t_keras.files.text_checks import CountedLines, invalid_utf8_warning, is_utf8
from t2t_keras.input_pipeline.corpora.fingerprints import fingerprint_of, hash_pairs
from t2t_keras.input_pipeline.corpora.moses_zip import open_moses_zip
from t2t_keras.input_pipeline.corpora.tables import (
    PairSelection,
    read_json_lines,
    read_parquet,
)
from t2t_keras.input_pipeline.corpora.tmx import read_tmx
from t2t_keras.input_pipeline.corpora.tsv import column_warnings, read_columns
from t2t_keras.text.normalization import is_blank

_LINES_AT_ONCE = 1024

TreeReader: TypeAlias = Callable[[Iterable[bytes], str], Iterator[tuple[bytes, bytes]]]
"""Function of the lines of bracketed trees and a name for messages, which yields the
source and the target of each tree."""


@dataclasses.dataclass(frozen=True)
class ParallelTextReport:
    """Counts and hash of all lines."""

    lines: int
    pairs: int
    """Lines with text on both sides, which `ParallelText.pairs` yields."""
    dropped_empty: int
    """Lines without text on one side or both."""
    invalid_utf8: int
    """Lines with ill-formed UTF-8 on either side, which becomes U+FFFD."""
    fingerprint: str
    """Hash of all pairs, in order; see `fingerprints`."""
    format_warnings: tuple[str, ...] = ()
    """Warnings about tables that are not of plain sentences."""

    def warnings(self) -> tuple[str, ...]:
        """Returns warnings about lines that are dropped, ill-formed or no sentences."""
        messages = [*self.format_warnings]
        if self.dropped_empty:
            messages.append(
                f"{self.dropped_empty} of {self.lines} lines have no text on one "
                "side or both and are left out of training, losses and perplexities."
            )
        if self.invalid_utf8:
            messages.append(invalid_utf8_warning(self.invalid_utf8, self.lines))
        return tuple(messages)


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Parallel files that have been read and checked once."""

    source_paths: tuple[Path, ...]
    target_paths: tuple[Path, ...]
    """One for each of `source_paths`; none if those hold both sides."""
    report: ParallelTextReport
    read_trees: TreeReader | None = None
    """For `.mrg` files."""
    selection: PairSelection = dataclasses.field(default_factory=PairSelection)
    """For other files with both sides."""

    def lines(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target of all lines, well-formed UTF-8."""
        files = self.source_paths, self.target_paths, self.read_trees
        for source, target in _line_pairs(*files, _lines, self.selection):
            yield repair(source), repair(target)

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields source and target of the lines on which neither is empty."""
        for source, target in self.lines():
            if not (is_blank(source) or is_blank(target)):
                yield source, target

    def sha256(self) -> str:
        """Returns the hash of the text of all pairs, in order.

        It is the fingerprint of releases up to 0.9, and takes another pass.
        """
        digest = hashlib.sha256()
        for pair in self.pairs():
            digest.update(b"%b\n%b\n" % pair)
        return digest.hexdigest()


def open_parallel_text(
    source: Sequence[str | Path],
    target: Sequence[str | Path] = (),
    read_trees: TreeReader | None = None,
    languages: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> ParallelText:
    """Returns parallel files, after one pass over them that checks every line.

    Args:
        source: Paths or glob patterns, of plain or compressed files, read one after
            another. A `.tsv` (or `.tsv.gz`) file holds source and target, a tab
            between them; a `.mrg` (or `.mrg.gz`) file holds trees. `.jsonl`, `.json`,
            `.parquet`, `.tmx` and `.zip` files hold both sides, too.
        target: The same number of files, in the same order; none if `source` holds
            both sides.
        read_trees: Reads `.mrg` files; None if the task has no trees.
        languages: Codes of both languages, which choose texts in a `.tmx` or `.zip`
            file and columns in others, and which a header may have.
        columns: Names of the source's and the target's column in `.jsonl`, `.json` and
            `.parquet` files. Default: see `PairSelection`.

    Raises:
        UserError: If a file is missing, cannot be read, is cut short, is no text in
            UTF-8, or holds trees although the task has none; if two files that belong
            together have different numbers of lines, a line of a TSV file has not
            exactly two columns, or a tree cannot be parsed; or for a fault of another
            file with both sides.
        MissingPackage: If a package that reads a file is not installed.
    """
    selection = PairSelection(languages, columns)
    source_paths, target_paths = expand_patterns(source), expand_patterns(target)
    check_sides(source_paths, target_paths)
    check_read_twice((*source_paths, *target_paths))
    if read_trees is None:
        _check_no_trees(source_paths)
    lines = pairs = invalid = 0
    warnings: list[str] = []
    files = source_paths, target_paths, read_trees

    def hashes() -> Iterator[np.ndarray]:
        nonlocal lines, pairs, invalid
        read = _line_pairs(*files, _checked_lines, selection, warnings.append)
        for chunk in chunks(read, _LINES_AT_ONCE):
            texts = [(repair(one), repair(other)) for one, other in chunk]
            lines += len(chunk)
            if texts != chunk:
                changed = (a != b for a, b in zip(texts, chunk, strict=True))
                invalid += sum(changed)
            kept = [pair for pair in texts if not any(map(is_blank, pair))]
            pairs += len(kept)
            yield hash_pairs(*zip(*kept, strict=True)) if kept else np.zeros(0, "<u8")

    fingerprint = fingerprint_of(hashes())
    report = ParallelTextReport(
        lines=lines,
        pairs=pairs,
        dropped_empty=lines - pairs,
        invalid_utf8=invalid,
        fingerprint=fingerprint,
        format_warnings=(*format_warnings(source_paths, languages), *warnings),
    )
    return ParallelText(source_paths, target_paths, report, read_trees, selection)


def read_parallel_text(
    source: str | Path,
    target: str | Path | None = None,
    languages: Sequence[str] = (),
    columns: Sequence[str] = (),
    read_trees: TreeReader | None = None,
) -> Iterator[tuple[bytes, bytes]]:
    """Returns source and target of all lines, well-formed UTF-8, in a single pass.

    Args:
        source: A path or glob pattern; see `open_parallel_text`.
        target: The same; None if `source` holds both sides.
        languages: Codes of both languages; see `open_parallel_text`.
        columns: The same.
        read_trees: Reads `.mrg` files; None if the task has no trees.

    Raises:
        UserError: At once if a file is missing; while reading, for the other faults
            of `open_parallel_text`.
    """
    source_paths = expand_patterns([source])
    target_paths = () if target is None else expand_patterns([target])
    check_sides(source_paths, target_paths)
    check_read_twice((*source_paths, *target_paths))
    if read_trees is None:
        _check_no_trees(source_paths)
    selection = PairSelection(languages, columns)
    lines = _line_pairs(source_paths, target_paths, read_trees, _lines, selection)
    return ((repair(one), repair(other)) for one, other in lines)


def read_lines(paths: Sequence[str | Path]) -> Iterator[bytes]:
    """Yields the lines of files or patterns, compressed or pipes too, without ends.

    Raises:
        UserError: If a file is missing, or cannot be read.
    """
    for path in expand_patterns(paths):
        yield from _lines(path)


def expand_patterns(patterns: Sequence[str | Path]) -> tuple[Path, ...]:
    """Returns the files of paths and glob patterns, sorted within each pattern."""
    paths: list[Path] = []
    for pattern in map(str, patterns):
        if as_path(pattern).exists():
            matches = [pattern]
        elif is_url(pattern):
            matches = find_pattern(pattern) if glob.has_magic(pattern) else []
        else:
            matches = sorted(glob.glob(pattern, recursive=True))
        if not matches:
            raise UserError(_explain_missing(as_path(pattern)))
        paths += map(as_path, matches)
    for path in paths:
        if path.is_dir():
            raise UserError(f"{path} is a folder. Name the text files in it.")
    return tuple(paths)


def _explain_missing(path: Path) -> str:
    if glob.has_magic(str(path)):
        return f"No file matches {path}. Check the pattern, and quote it in a shell."
    if not path.parent.is_dir():
        return f"The file {path} does not exist, nor does the folder {path.parent}."
    names = sorted(entry.name for entry in path.parent.iterdir())
    return f"The file {path} does not exist.{did_you_mean(path.name, names)}"


def check_sides(source: tuple[Path, ...], target: tuple[Path, ...]) -> None:
    """Raises `UserError` if source and target files do not belong together."""
    is_both = [holds_both_sides(path) for path in source]
    if not source:
        raise UserError("No source files are given. Name one or more.")
    if any(is_both) and target:
        raise UserError(
            f"{source[is_both.index(True)]} holds both sides, so no target file "
            f"belongs to it. Received: {target[0]}. Give files with both sides as "
            "source alone."
        )
    if not target and not all(is_both):
        raise UserError(
            f"No target file belongs to {source[is_both.index(False)]}. Name one, or "
            "give a file with both sides: .tsv with source and target in two columns, "
            ".jsonl, .parquet, .tmx, a .zip of OPUS, or .mrg with trees."
        )
    if trees := [path for path in target if text_suffix(path) == ".mrg"]:
        raise UserError(
            f"{trees[0]} holds trees, and with them both sides: sentences and what to "
            "learn of them. Give it as source, and no target."
        )
    if target and len(source) != len(target):
        raise UserError(
            f"Source names {len(source)} files and target {len(target)}; each "
            "source file needs its own target file, in the same order."
        )


def check_read_twice(paths: Sequence[Path]) -> None:
    """Raises `UserError` if a path is that of a pipe or a device."""
    for path in paths:
        if not path.is_file():
            raise UserError(
                f"{path} is a pipe or a device, which can be read only once, but "
                "parallel text is read several times. Write it to a file first."
            )


def _check_no_trees(paths: Sequence[Path]) -> None:
    for path in paths:
        if text_suffix(path) == ".mrg":
            raise UserError(
                f"{path} holds trees, and trees are what a parser learns. Give "
                "--target_language=tree, or a text file."
            )


def check_both_sides(source: Sequence[str], reference: Sequence[str]) -> None:
    """Raises `UserError` if --source or --reference is given alone, without need."""
    complete = bool(source) == bool(reference)
    if not complete and not (source and all(map(holds_both_sides, source))):
        raise UserError("--source and --reference belong together; one is missing.")


def _line_pairs(
    source_paths: Sequence[Path],
    target_paths: Sequence[Path],
    read_trees: TreeReader | None,
    read: Callable[[Path], Iterator[bytes]],
    selection: PairSelection,
    warn: Callable[[str], object] = lambda _: None,
) -> Iterator[tuple[bytes, bytes]]:
    """Yields every pair of lines of the files, unchanged, as `read` yields them."""
    if not target_paths:
        for path in source_paths:
            if read_trees is not None and text_suffix(path) == ".mrg":
                yield from read_trees(read(path), str(path))
            else:
                yield from _both_sides(path, read, selection, warn)
        return
    for source, target in zip(source_paths, target_paths, strict=True):
        yield from _matched_lines(source, target, read)


def _both_sides(
    path: Path,
    read: Callable[[Path], Iterator[bytes]],
    selection: PairSelection,
    warn: Callable[[str], object],
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the pairs of a file with both sides, by the ending of its name."""
    ending = text_suffix(path)
    if ending in (".jsonl", ".json"):
        yield from read_json_lines(read(path), path, selection)
    elif ending == ".parquet":
        yield from read_parquet(path, selection)
    elif ending == ".tmx":
        yield from read_tmx(path, selection.languages, warn)
    elif ending == ".zip":
        with open_moses_zip(path, selection.languages) as (members, read_member):
            yield from _matched_lines(members[0], members[1], read_member)
    else:
        yield from read_columns(read(path), path)


def _matched_lines(
    source: Path, target: Path, read: Callable[[Path], Iterator[bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    source_lines, target_lines = read(source), read(target)
    for number in itertools.count():
        source_line, target_line = next(source_lines, None), next(target_lines, None)
        if source_line is not None and target_line is not None:
            yield source_line, target_line
            continue
        # At least one has ended; the other must end too.
        source_count = number + (source_line is not None) + sum(1 for _ in source_lines)
        target_count = number + (target_line is not None) + sum(1 for _ in target_lines)
        if source_count != target_count:
            raise other_line_count_error(source, target, source_count, target_count)
        return


def other_line_count_error(
    source: Path, target: Path, source_lines: int, target_lines: int
) -> UserError:
    """Returns the error for files of different numbers of lines."""
    return UserError(
        f"{source} has {source_lines} lines, but {target} has {target_lines}. Line i "
        "of one must translate line i of the other: find where they part, or make the "
        "files again from one list of pairs."
    )


def _lines(path: Path) -> Iterator[bytes]:
    with open_input(str(path)) as lines:
        yield from lines


def _checked_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file, at whose end it may turn out to be no text."""
    yield from CountedLines(_lines(path), str(path))


def format_warnings(paths: Sequence[Path], languages: Sequence[str]) -> Iterator[str]:
    """Yields warnings about tables whose first rows are not of plain sentences."""
    for path in paths:
        if text_suffix(path) == ".tsv":
            rows = read_columns(_lines(path), path)
            yield from column_warnings(rows, path, languages)


def repair(line: bytes) -> bytes:
    """Returns a line with U+FFFD for ill-formed UTF-8."""
    if is_utf8(line):
        return line
    return line.decode("utf-8", errors="replace").encode("utf-8")


def absolute_paths(files: Any) -> list[tuple[Path, ...]]:
    """Returns the one or two paths of each corpus, wherever this process goes later."""
    if isinstance(files, str | os.PathLike):
        files = [files]
    corpora = [
        [path] if isinstance(path, str | os.PathLike) else path for path in files
    ]
    for paths in corpora:
        if len(paths) not in (1, 2):
            raise UserError(
                "Each of files must be one path with both sides, such as a .tsv, or a "
                "source and a target path. "
                f"Received: {paths!r}"
            )
    if not corpora:
        raise UserError("files must name one file or more. Received: none")
    return [tuple(expand(path).absolute() for path in paths) for paths in corpora]
