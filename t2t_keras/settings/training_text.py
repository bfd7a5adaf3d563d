"""Parsers of the settings of the training text: mixture, filters, user symbols."""

import os
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.files.lines import holds_both_sides
from t2t_keras.files.paths import absolute
from t2t_keras.files.remote import is_url

# Not the colon of a URL.
_SEPARATOR = re.compile(r":(?!//)")
# TFDS separates a version with a colon.
_VERSION = re.compile(r"(\d+|\*)\.(\d+|\*)\.(\d+|\*)")
_TAKEN_PIECE = re.compile(r"<(pad|unk|s|/s|0x[0-9A-Fa-f]{2})>")
_PLAIN_FILTERS = ("copied", "duplicates", "script", "language", "markup", "numbers")
# A higher rate is more likely a typo.
MAX_RATE = 1000


class MixtureItem(NamedTuple):
    """One item of `--mixture`.

    Attributes:
        names: A dataset, a folder of records or a two-sided file; or a source file and
            a target file.
        rate: Mean number of times that each pair occurs in an epoch of the main corpus.
        tag: Symbol before each source; "" for none.
    """

    names: tuple[str, ...]
    rate: Fraction
    tag: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the names are those of text files."""
        return len(self.names) == 2 or holds_both_sides(self.names[0])

    @property
    def is_records(self) -> bool:
        """Whether the name is that of a folder of records."""
        return len(self.names) == 1 and is_records_folder(self.name)

    @property
    def name(self) -> str:
        """The names as in the setting."""
        return ":".join(self.names)


def parse_mixture_item(text: str) -> MixtureItem:
    """Returns an item of `--mixture`.

    Args:
        text: `NAME:RATE` or `SOURCE:TARGET:RATE`, with a rate such as 2, 0.25 or 1/3;
            then `:TAG`, or nothing. A tag is not a number.

    Raises:
        UserError: If the text has another format, or the rate is not a number above 0
            and at most 1,000.

    >>> parse_mixture_item("more.en:more.de:1/4").rate
    Fraction(1, 4)
    """
    *names, rate_text = _SEPARATOR.split(text)
    tag = ""
    numbers = [_parse_number(part) is not None for part in (*names[-1:], rate_text)]
    if numbers == [True, False]:
        tag, rate_text = rate_text, names.pop()
        if not tag or tag.split() != [tag]:
            raise UserError(
                "The tag of an item of --mixture must be one symbol, without spaces. "
                f"Received: {text!r}"
            )
    if len(names) > 1 and _VERSION.fullmatch(names[-1]):
        version = names.pop()
        names[-1] += f":{version}"
    if not (1 <= len(names) <= 2 and all(names)):
        raise UserError(
            "An item of --mixture must be NAME:RATE (a dataset, a folder of records, a "
            "file with both sides such as .tsv) or SOURCE:TARGET:RATE (two text "
            f"files), such as more.en:more.de:0.25. Received: {text!r}"
        )
    return MixtureItem(tuple(names), _parse_rate(rate_text, text), tag)


def _parse_number(text: str) -> Fraction | None:
    """Returns a number such as 2, 0.25 or 1/3; None if the text is none.

    An exact fraction: the float 0.1 is slightly more than a tenth. A number whose
    exponent is far out of range becomes 0, because its fraction takes long to compute.
    """
    try:
        if "/" not in text and not 1e-9 < abs(float(text)) < 1e9:
            return Fraction(0) if any(map(str.isdigit, text)) else None
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def _parse_rate(rate_text: str, text: str) -> Fraction:
    rate = _parse_number(rate_text) or Fraction(0)
    if not 0 < rate <= MAX_RATE:
        raise UserError(
            "The rate of an item of --mixture must be a number above 0 and at most "
            f"{MAX_RATE}, such as 2, 0.25 or 1/3: the number of times that an epoch "
            f"has each of its pairs. Received: {text!r}"
        )
    return rate


class FilterItem(NamedTuple):
    """One item of `--filter`.

    Attributes:
        name: length_ratio, copied, duplicates, script, language, markup or numbers.
        ratio: Maximum of length_ratio; None for another filter.
        unit: words or characters, of length_ratio.
    """

    name: str
    ratio: Fraction | None = None
    unit: str = "words"


def parse_filter_item(text: str) -> FilterItem:
    """Returns an item of `--filter`.

    Args:
        text: `length_ratio:RATIO`, `length_ratio:RATIO:characters`, or a name.

    Raises:
        UserError: If there is no such filter, or the ratio is not a number from 1 on.

    >>> parse_filter_item("length_ratio:2.5").ratio
    Fraction(5, 2)
    """
    name, *options = text.split(":")
    if name == "length_ratio":
        return _parse_length_ratio(text, *options)
    if name not in _PLAIN_FILTERS or options:
        names = ("length_ratio:RATIO", *_PLAIN_FILTERS)
        raise UserError(
            f"An item of --filter must be one of {', '.join(names)}. "
            f"Received: {text!r}.{did_you_mean(name, ['length_ratio', *names[1:]])}"
        )
    return FilterItem(name)


def _parse_length_ratio(
    text: str, ratio_text: str = "", unit: str = "words", *rest: str
) -> FilterItem:
    ratio = _parse_number(ratio_text) or Fraction(0)
    if not 1 <= ratio <= MAX_RATE or unit not in ("words", "characters") or rest:
        raise UserError(
            "The filter length_ratio must have the maximum ratio of the longer side "
            f"to the shorter one, from 1 to {MAX_RATE}, and may have the unit words "
            "(the default) or characters: length_ratio:2 or "
            f"length_ratio:2:characters. Received: {text!r}"
        )
    return FilterItem("length_ratio", ratio, unit)


def make_names_absolute(text: str) -> str:
    """Returns the item with absolute paths of its files."""
    item = parse_mixture_item(text)
    names, rate, tag = item
    expanded = tuple(map(os.path.expanduser, names))
    if is_records_folder(expanded[0]) or item.is_text:
        names = tuple(map(absolute, expanded))
    return ":".join([*names, str(rate), *([tag] if tag else [])])


def check_user_symbols(symbols: Sequence[str]) -> None:
    """Checks the symbols of `--user_symbols`.

    Raises:
        UserError: If a symbol is empty, is given twice, has a space or SentencePiece's
            sign for one, or is the name of a special or byte piece.
    """
    for symbol in symbols:
        is_taken = _TAKEN_PIECE.fullmatch(symbol) is not None
        if is_taken or symbol.split() != [symbol] or "\u2581" in symbol:
            raise UserError(
                "A symbol of --user_symbols must have no space, and not be the name "
                f"of a special piece such as <unk> or <0x41>. Received: {symbol!r}"
            )
    if len(set(symbols)) < len(symbols):
        raise UserError(
            f"--user_symbols must name each symbol once. Received: {','.join(symbols)}"
        )


def is_records_folder(name: str) -> bool:
    """Returns whether a name is that of a folder of records, not of a dataset.

    A URL of no text can only be one of records.
    """
    if is_url(name):
        return not holds_both_sides(name)
    return os.path.isfile(os.path.join(name, "manifest.json"))
