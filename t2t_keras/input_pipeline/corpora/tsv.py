"""Text files with two columns, source and target, and a tab between them.

There is no quoting: whatever is between tabs and line ends is text.
"""

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.text.languages import language_name
from t2t_keras.text.normalization import is_blank

# Lines of a table that tell its format.
_FIRST_ROWS = 1000
_QUOTED = re.compile(rb'(?s)".*"')
# What a header of a table of sentence pairs is made of, besides codes and names of
# its languages.
_HEADER_WORDS = frozenset(
    "source target src tgt trg ref reference text sentence segment translation "
    "original input output en de".split()
)


def read_columns(lines: Iterable[bytes], path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yields both columns of each line of a file; empty ones for a blank line.

    Raises:
        UserError: If a line has not exactly two.
    """
    for number, line in enumerate(lines, start=1):
        yield check_columns(path, number, line)


def check_columns(path: Path | str, number: int, line: bytes) -> tuple[bytes, bytes]:
    """Returns both columns of a line; empty ones of a blank line.

    Raises:
        UserError: If it has not exactly two.
    """
    columns = line.split(b"\t")
    if len(columns) != 2 and is_blank(line):
        columns = [b"", b""]
    if len(columns) != 2:
        raise UserError(
            f"{path}, line {number}: a line must have 2 columns, source and "
            f"target with one tab between them. Received: {len(columns)}"
            f"{_other_format(line)}"
        )
    return columns[0], columns[1]


def _other_format(line: bytes) -> str:
    """Returns the end of a message about a line that may be CSV or JSON; or ""."""
    text = line.decode("utf-8", errors="replace").strip()
    if text.startswith(("{", "[")):
        return ". If the file is of JSON lines, name it .jsonl."
    if not (text.startswith('"') or any(_has_two(text, mark) for mark in ",;\t")):
        return ""
    return (
        ". This may be CSV, but quotes and commas are text here. Write it with one tab "
        "between the columns and no quotes around them, or as .jsonl, which keeps tabs."
    )


def _has_two(text: str, mark: str) -> bool:
    """Returns whether a line of CSV has two fields, with a mark between them."""
    try:
        return len(next(csv.reader([text], delimiter=mark), ())) == 2
    except csv.Error:  # too long, or with a CR
        return False


def column_warnings(
    rows: Iterable[tuple[bytes, bytes]], path: Path, languages: Sequence[str]
) -> Iterator[str]:
    """Yields warnings about a file whose first rows are not of plain sentences."""
    rows = list(itertools.islice(rows, _FIRST_ROWS))
    names = " ".join(
        name
        for code in languages
        for name in (code, language_name(code), language_name(code, own=True))
    )
    if rows and all(_is_name(cell, names) for cell in rows[0]):
        yield (
            f"{path} begins with the names of its columns, which are taken for a "
            f"sentence pair: {b', '.join(rows[0]).decode()}. Remove this line: "
            "tail -n +2 writes the others."
        )
    quoted = sum(all(map(_QUOTED.fullmatch, row)) for row in rows)
    if quoted > len(rows) / 2:
        yield (
            f"{path} has double quotes around both columns in {quoted} of its "
            f"first {len(rows)} lines, which are taken for text. Write it without, "
            "as csv.writer does with csv.QUOTE_NONE."
        )


def _is_name(cell: bytes, names: str) -> bool:
    """Returns whether all words of a cell are of a header, such as source_text1."""
    words, own = (
        set(re.findall(r"[^\W\d_]+", text.lower()))
        for text in (cell.decode("utf-8", errors="replace"), names)
    )
    return bool(words) and words <= _HEADER_WORDS | own
