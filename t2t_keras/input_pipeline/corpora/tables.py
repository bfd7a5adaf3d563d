"""Tables of sentence pairs: JSON lines and Parquet, with a named column for each side.

A row is a pair. A value is a string, or null for an empty side: that is how tables say
that there is no text, and a pair without text on a side is left out and counted. A line
break within a value becomes a space, as it does when text is normalized, so that a pair
stays one line in whatever is written.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError, require_extra
from t2t_keras.files.remote import as_file_or_path
from t2t_keras.files.text_checks import CountedLines
from t2t_keras.text.normalization import is_blank

# Rows of Parquet in memory, and bytes of a column that are read at once.
_ROWS = 1024
_BUFFER = 1 << 20
_MOST_LISTED = 20
_LINE_BREAKS = bytes.maketrans(b"\n\r", b"  ")
_MISSING = object()
_EXAMPLE = '{"source": "…", "target": "…"}'


@dataclasses.dataclass(frozen=True)
class PairSelection:
    """What is read of a file with both sides.

    Attributes:
        languages: Codes of source and target language; empty if they are not known.
        columns: Names of the columns of both; empty for those that the languages tell.
    """

    languages: Sequence[str] = ()
    columns: Sequence[str] = ()

    def choices(self) -> Iterator[tuple[str, str]]:
        """Yields the names of the two columns that a table may have, the first best."""
        if self.columns:
            yield self.columns[0], self.columns[1]
            return
        if self.languages:
            source, target = self.languages
            yield f"translation.{source}", f"translation.{target}"
            yield source, target
        yield "source", "target"

    def choose(
        self, where: str, has: Callable[[str], bool], columns: Iterable[str]
    ) -> tuple[str, str]:
        """Returns the names of the two columns of a table.

        Args:
            where: Name of the table in messages.
            has: Returns whether it has a column.
            columns: Names of all columns, for the message.

        Raises:
            UserError: If it has none of the choices.
        """
        for names in self.choices():
            if all(map(has, names)):
                return names
        wanted = ", or ".join(" and ".join(names) for names in self.choices())
        found = [*itertools.islice(columns, _MOST_LISTED + 1)]
        listed = ", ".join(found[:_MOST_LISTED]) or "none"
        raise UserError(
            f"{where} must have the columns {wanted}. There are: {listed}"
            f"{', …' if len(found) > _MOST_LISTED else ''}. Name those of the source "
            "and the target with --source_column and --target_column, with a dot "
            "before a column within another: translation.en"
        )


def one_line(text: bytes) -> bytes:
    """Returns a text with spaces for its line breaks."""
    return text.translate(_LINE_BREAKS)


def read_json_lines(
    lines: Iterable[bytes], path: Path, selection: PairSelection
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the pair of each line of a file, an object of JSON.

    A blank line is a pair of empty sides, as in other files.

    Raises:
        UserError: If a line is no object, the first has not the columns of the
            selection, or another line lacks one or has a value that is no string.
    """
    names: tuple[str, str] | None = None
    for number, line in enumerate(lines, start=1):
        if is_blank(line):
            yield b"", b""
            continue
        where = f"{path}, line {number}:"
        row = _parse_object(line, where)
        if names is None:
            names = selection.choose(
                f"{where} a row",
                lambda name, row=row: _find(row, name) is not _MISSING,
                _json_columns(row),
            )
        source, target = (_json_text(_find(row, each), each, where) for each in names)
        yield source, target


def _parse_object(line: bytes, where: str) -> dict[str, Any]:
    # Bytes that are no UTF-8 pass through, and are counted and replaced later.
    text = line.decode("utf-8", errors="surrogateescape")
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = (
            " It looks like one list on many lines: jq -c '.[]' writes a line for each."
            if text.strip() in ("[", "{")
            else ""
        )
        raise UserError(
            f"{where} it is not JSON ({error}). Each line must be an object on its "
            f"own, such as {_EXAMPLE}.{hint}"
        ) from error
    if not isinstance(row, dict):
        hint = " jq -c '.[]' writes each item of a list to a line."
        raise UserError(
            f"{where} a line must be an object of JSON, such as {_EXAMPLE}. "
            f"Received: {text:.60}.{hint if isinstance(row, list) else ''}"
        )
    return row


def _find(row: Any, name: str) -> Any:
    """Returns a value by its name; None within null; `_MISSING` if there is none."""
    if isinstance(row, dict) and name in row:
        return row[name]
    first, dot, rest = name.partition(".")
    if not (dot and isinstance(row, dict) and first in row):
        return _MISSING
    return None if row[first] is None else _find(row[first], rest)


def _json_columns(row: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yields the names of all values in a row."""
    for name, value in row.items():
        if isinstance(value, dict) and value:
            yield from _json_columns(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _json_text(value: Any, name: str, where: str) -> bytes:
    if value is None:
        return b""
    if isinstance(value, str):
        try:
            text = value.encode("utf-8", errors="surrogateescape")
        except UnicodeEncodeError:  # half of a pair of surrogates, such as \ud83d
            text = value.encode("utf-8", errors="surrogatepass")
        return one_line(text)
    if value is _MISSING:
        raise UserError(
            f"{where} there is no {name}, which other lines have. Give it a string, or "
            "null to leave the pair out."
        )
    raise UserError(
        f"{where} {name} must be a string, or null to leave the pair out. Received: "
        f"{json.dumps(value, ensure_ascii=False):.60}"
    )


def read_parquet(path: Path, selection: PairSelection) -> Iterator[tuple[bytes, bytes]]:
    """Yields the pair of each row of a Parquet file, some rows in memory at a time.

    Raises:
        UserError: If the file cannot be read or is damaged, it has not the columns of
            the selection, or one is not of strings.
        MissingPackage: If pyarrow is not installed.
    """
    require_extra(f"{path}, a file in Parquet,", "formats", "pyarrow")
    # Their import takes long, and only files of this kind need them.
    import pyarrow
    from pyarrow import parquet

    try:
        # By default, a whole group of rows would be read: the file, if it has but one.
        with parquet.ParquetFile(
            as_file_or_path(path), buffer_size=_BUFFER, pre_buffer=False
        ) as file:
            columns = [file.schema.column(i) for i in range(len(file.schema))]
            paths = [column.path for column in columns]
            names = selection.choose(
                f"{path}", lambda name: paths.count(name) == 1, paths
            )
            for column in columns:
                if column.path in names:
                    _check_strings(column, path)
            batches = file.iter_batches(_ROWS, columns=[*names], use_threads=False)
            tables = (pyarrow.Table.from_batches([batch]) for batch in batches)
            pairs = itertools.chain.from_iterable(
                zip(*(_cells(table, name) for name in names), strict=True)
                for table in tables
            )
            # Cells have no line breaks, so that one joins both sides of a pair.
            for line in CountedLines(map(b"\n".join, pairs), str(path)):
                source, _, target = line.partition(b"\n")
                yield source, target
    except (OSError, pyarrow.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from error
        raise UserError(
            f"{path} is damaged, incomplete, or not in Parquet ({error}). Copy or "
            "download it again, or give it the ending of its format. A file that is "
            "compressed as a whole must be decompressed first."
        ) from error


def _check_strings(column: Any, path: Path) -> None:
    """Raises `UserError` unless a column of a Parquet file is of strings."""
    kind = column.logical_type.type
    if kind != "STRING":
        kind = column.physical_type if kind == "NONE" else kind
        raise UserError(
            f"{path}: the column {column.path} must be of strings. It is of type "
            f"{kind.lower()}: convert it, or name another with --source_column and "
            "--target_column."
        )


def _cells(table: Any, name: str) -> Iterator[bytes]:
    """Yields the values of a column, which may be in structs, without line breaks."""
    import pyarrow

    while name not in table.column_names:
        table = table.flatten()  # a null of a struct is one of its fields, too
    column = table.column(name)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    # As bytes: nobody has checked that the strings are UTF-8.
    for cell in column.cast(pyarrow.large_binary()).to_pylist():
        yield one_line(cell or b"")
