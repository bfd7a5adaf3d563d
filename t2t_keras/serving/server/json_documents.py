"""JSON documents, read as TensorFlow Serving reads them.

What is accepted, and the messages and offsets of errors, are those of RapidJSON with
the flags of tensorflow_serving/util/json_tensor.cc. Python's own parser is many times
as fast, so it reads what it can. Documents that it refuses, or would read differently,
are read again by the parser below.
"""

import json
import math
import re
from typing import Any, NoReturn

from t2t_keras.serving.server.errors import invalid_argument

# RapidJSON has no limit, but a byte per level would take a hundred here.
MOST_LEVELS = 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Escapes of both halves of surrogate pairs.
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
# White space, and the byte after it, if any.
_NEXT = re.compile(rb"[ \t\n\r]*+([^ \t\n\r]?)")
_HEX = re.compile(rb"\\u[0-9a-fA-F]{4}")
_HIGH = re.compile(rb"\\u[dD][89abAB]")
# From the opening quotation mark to the closing one, or to what is wrong.
_STRING = re.compile(
    rb'"(?:[^"\\\x00-\x1f]++'
    rb'|\\["\\/bfnrt]'
    rb"|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*+)")
_FRACTION = re.compile(rb"\.([0-9]*+)")
_EXPONENT = re.compile(rb"[eE][+-]?([0-9]*+)")
# All integers of as many digits are doubles.
_DIGITS_OF_DOUBLES = 308


def parse_document(body: bytes) -> Any:
    """Returns the value of a body; what follows the first value is ignored.

    Of several members of an object with the same name, the first counts.

    Raises:
        ServingError: If it is no JSON, or has more than `MOST_LEVELS`.
    """
    if not body:
        raise invalid_argument("JSON Parse error: The document is empty")
    decoder = json.JSONDecoder(
        parse_int=_parse_int, parse_float=_parse_float, object_pairs_hook=_make_object
    )
    try:
        text = body.decode("utf-8-sig").lstrip(" \t\r\n")
        value = decoder.raw_decode(text)[0]
        # UTF-8 has no half of a surrogate pair, in whatever string it is.
        if _HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (RecursionError, ValueError):
        return _Parser(body).parse()


def _parse_int(text: str) -> int:
    if len(text) > _DIGITS_OF_DOUBLES:
        raise ValueError(text)
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("The last member of a name would count.")
    return members


class _Parser:
    """Parser without recursion, since a document may have any depth."""

    def __init__(self, body: bytes):
        self._body = body
        self._at = len(_BYTE_ORDER_MARK) if body.startswith(_BYTE_ORDER_MARK) else 0

    def parse(self) -> Any:
        """Returns the first value of the body."""
        if self._next() in (b"", b"\0", b"]", b"}", b",", b":"):
            self._fail("The document is empty.")
        document: list[Any] = []
        # Lists and objects that have not ended, the innermost last.
        opened: list[Any] = [document]
        name = ""
        while True:
            value = self._value()
            if isinstance(opened[-1], list):
                opened[-1].append(value)
            else:
                opened[-1].setdefault(name, value)
            if isinstance(value, list | dict):
                opened.append(value)
                if len(opened) > MOST_LEVELS:
                    raise invalid_argument(
                        "JSON Parse error: The document has more than "
                        f"{MOST_LEVELS:,} levels"
                    )
                more = self._next() != (b"]" if isinstance(value, list) else b"}")
            else:
                more = False
            while not more:
                if len(opened) == 1:
                    return document[0]
                more = self._comma(opened)
            if isinstance(opened[-1], dict):
                name = self._name()

    def _comma(self, opened: list[Any]) -> bool:
        """Ends the innermost list or object, or returns that a comma was there."""
        in_list = isinstance(opened[-1], list)
        found = self._next()
        if found == b",":
            self._at += 1
            return True
        if found != (b"]" if in_list else b"}"):
            self._fail(
                "Missing a comma or ']' after an array element."
                if in_list
                else "Missing a comma or '}' after an object member."
            )
        self._at += 1
        opened.pop()
        return False

    def _name(self) -> str:
        if self._next() != b'"':
            self._fail("Missing a name for object member.")
        name = self._string()
        if self._next() != b":":
            self._fail("Missing a colon after a name of object member.")
        self._at += 1
        return name

    def _value(self) -> Any:
        """Returns the next value, of a list or an object without what is in it."""
        found = self._next()
        if found in (b"[", b"{"):
            self._at += 1
            return [] if found == b"[" else {}
        if found == b'"':
            return self._string()
        if found == b"n":
            return self._word(b"null", None)
        if found in (b"t", b"f"):
            return self._word(b"true" if found == b"t" else b"false", found == b"t")
        return self._number()

    def _string(self) -> str:
        start = self._at
        self._skip(_STRING)
        found = self._body[self._at : self._at + 1]
        if found != b'"':
            self._fail(self._problem_of_string(found))
        self._at += 1
        try:
            return json.loads(self._body[start : self._at].decode())
        except UnicodeDecodeError as error:
            self._at = start + error.start
            self._fail("Invalid encoding in string.")

    def _problem_of_string(self, found: bytes) -> str:
        if found in (b"", b"\0"):
            return "Missing a closing quotation mark in string."
        if found != b"\\":
            return "Invalid encoding in string."
        if self._body[self._at + 1 : self._at + 2] != b"u":
            return "Invalid escape character in string."
        # A first half needs a second one.
        second = self._at + 6
        if not _HEX.match(self._body, self._at) or (
            _HIGH.match(self._body, self._at)
            and self._body[second : second + 2] == b"\\u"
            and not _HEX.match(self._body, second)
        ):
            return "Incorrect hex digit after \\u escape in string."
        return "The surrogate pair in string is invalid."

    def _number(self) -> float:
        start = self._at
        if not self._skip(_INTEGER):
            sign = -1 if self._next() == b"-" else 1
            self._at = start + (sign == -1)
            if self._body[self._at : self._at + 1] == b"N":
                return self._word(b"NaN", math.nan)
            value = self._word(b"Inf", sign * math.inf)
            if self._body[self._at : self._at + 1] == b"i":
                self._word(b"inity", value)
            return value
        whole = True
        for pattern, part in ((_FRACTION, "fraction part"), (_EXPONENT, "exponent")):
            match = self._skip(pattern)
            if match:
                whole = False
                if not match[1]:
                    self._fail(f"Miss {part} in number.")
        text = self._body[start : self._at]
        if math.isinf(float(text)):
            self._at = start
            self._fail("Number too big to be stored in double.")
        return int(text) if whole else float(text)

    def _word(self, word: bytes, value: Any) -> Any:
        for index in range(len(word)):
            if self._body[self._at : self._at + 1] != word[index : index + 1]:
                self._fail("Invalid value.")
            self._at += 1
        return value

    def _next(self) -> bytes:
        """Skips white space; returns the byte that follows, or none."""
        match = _NEXT.match(self._body, self._at)
        if match is None:
            return b""
        self._at = match.start(1)
        return match[1]

    def _skip(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        match = pattern.match(self._body, self._at)
        if match:
            self._at = match.end()
        return match

    def _fail(self, problem: str) -> NoReturn:
        raise invalid_argument(f"JSON Parse error: {problem} at offset: {self._at}")
