r"""Marian's vocabulary files: a YAML map from pieces to ids.

YAML libraries do not read all of them as Marian does: they take `~` for null and `1.0`
for a number, fold lines at U+0085 and U+2028, and refuse control characters. Marian
writes an entry a line, which is read here as such.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import read_pieces

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
# What a line of YAML between double quotes cannot have as it is.
_NOT_PLAIN = re.compile('["\\\\\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]')
# YAML 1.2, section 5.7.
_ESCAPED = MappingProxyType(
    {
        "0": "\0",
        "a": "\a",
        "b": "\b",
        "t": "\t",
        "n": "\n",
        "v": "\v",
        "f": "\f",
        "r": "\r",
        "e": "\x1b",
        "N": "\x85",
        "_": "\xa0",
        "L": "\u2028",
        "P": "\u2029",
    }
)


def read_vocabulary(path: Path) -> list[str]:
    """Returns the pieces by id in a file `*.yml` of Marian, of lines `piece: id`.

    Raises:
        UserError: If the file cannot be read, a line is malformed, or the ids are not
            0, 1, 2, ... once each.
    """
    pieces: dict[int, str] = {}
    key: str | None = None
    for number, line in enumerate(read_pieces(path), start=1):
        line = line.rstrip("\r")
        if not line.strip() or line in ("---", "...") or line.startswith("#"):
            continue
        if line.startswith("? "):  # a long key; its value follows in the next line
            key = line[2:]
            continue
        if key is None:
            key, _, value = line.rpartition(":")
        else:
            value = line.removeprefix(":")
        if not value.strip().isdecimal() or not key:
            raise UserError(
                f"Line {number} of the vocabulary {path} must be a piece, a colon and "
                f"an id. Received: {line:.60}"
            )
        if pieces.setdefault(int(value), piece := _unquote(key)) != piece:
            raise UserError(
                f"The vocabulary {path} has the id {int(value)} twice: for "
                f"{pieces[int(value)]!r} and {piece!r}."
            )
        key = None
    if not pieces or sorted(pieces) != list(range(len(pieces))):
        raise UserError(
            f"The ids of the vocabulary {path} must be 0, 1, 2, ... without a gap. "
            f"Received: {len(pieces)} ids up to {max(pieces, default=None)}"
        )
    return [pieces[i] for i in range(len(pieces))]


def _unquote(key: str) -> str:
    """Returns the text of a YAML scalar on one line."""
    key = key.strip(" ")
    if len(key) > 1 and key[0] == key[-1] == '"':
        return _ESCAPE.sub(_unescape, key[1:-1])
    if len(key) > 1 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    return key


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[4], match[4])


def vocabulary_text(pieces: Sequence[str]) -> str:
    """Returns the content of a file `*.yml`, from which Marian reads these pieces.

    Every piece is quoted: without quotes `~` and `1.0` have other types.
    """
    lines = (f"{_quote(piece)}: {i}\n" for i, piece in enumerate(pieces))
    return "".join(lines)


def _quote(piece: str) -> str:
    return f'"{_NOT_PLAIN.sub(_escape, piece)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in '"\\':
        return f"\\{character}"
    return f"\\u{ord(character):04X}"
