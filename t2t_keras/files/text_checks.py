"""Checks that lines are text in UTF-8."""

from collections.abc import Iterable, Iterator

from t2t_keras.errors import UserError

# Share of lines that are no text above which a file is refused.
_MOST_BAD = 0.05


def title_of(path: str) -> str:
    """Returns what messages call an input."""
    return "Standard input" if path == "-" else path


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


def check_is_text(path: str, lines: int, invalid: int, with_nul: int) -> None:
    """Raises `UserError` if too many lines of a file are no text in UTF-8.

    Args:
        path: The file.
        lines: Number of its lines.
        invalid: Number of them that are not valid UTF-8.
        with_nul: Number of others that have NUL bytes.
    """
    if invalid + with_nul > max(1, lines * _MOST_BAD):
        # Without a byte order mark, UTF-16 shows only in its NUL bytes.
        encoding = "ISO-8859-1" if invalid >= with_nul else "UTF-16LE"
        raise UserError(
            f"{title_of(path)} is not text in UTF-8: {invalid} of {lines} lines are "
            f"not valid, and {with_nul} others have NUL bytes; at most "
            f"{_MOST_BAD:.0%} are read. Convert it, for example with iconv -f "
            f"{encoding} -t UTF-8, or repair these lines."
        )


class CountedLines:
    """Iterator over lines that counts them, and those that are not valid UTF-8.

    It ends in a `UserError` if more than one line, and more than 5 % of all, are not
    valid UTF-8 or have a NUL: then the text is in another encoding, or binary.

    Args:
        lines: The lines, which pass through unchanged.
        path: Path of their file, for the message.
        first: Number of lines to judge by, before the last of them is passed on.
            Others only count. Default: all of them, at the end.
    """

    def __init__(self, lines: Iterable[bytes], path: str, first: int | None = None):
        self._lines = lines
        self._path = path
        self._first = first
        self._count = self._invalid = self._with_nul = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self._count += 1
            if not is_utf8(line):
                self._invalid += 1
            elif b"\0" in line:
                self._with_nul += 1
            if self._count == self._first:
                self._check()
            yield line
        if self._first is None or self._count < self._first:
            self._check()

    def _check(self) -> None:
        check_is_text(self._path, self._count, self._invalid, self._with_nul)

    @property
    def warning(self) -> str:
        """Warning about the lines so far; "" if all are valid UTF-8."""
        return invalid_utf8_warning(self._invalid, self._count)
