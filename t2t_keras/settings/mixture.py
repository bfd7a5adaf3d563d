"""Parser of the setting `--mixture`: additional training corpora and their rates."""

import os
import re
from fractions import Fraction
from typing import NamedTuple

from t2t_keras.errors import UserError

# Suffixes of files with both sides of their pairs.
_TWO_SIDED_SUFFIXES = (".tsv", ".mrg", ".tsv.gz", ".mrg.gz")
# TFDS separates a version with a colon.
_VERSION = re.compile(r"(\d+|\*)\.(\d+|\*)\.(\d+|\*)")
# A higher rate is more likely a typo.
_MAX_RATE = 1000


class MixtureItem(NamedTuple):
    """One item of `--mixture`.

    Attributes:
        names: A dataset, a folder of records or a two-sided file; or a source file and
            a target file.
        rate: Mean number of times that each pair occurs in an epoch of the main corpus.
    """

    names: tuple[str, ...]
    rate: Fraction

    @property
    def is_text(self) -> bool:
        """Whether the names are those of text files."""
        return len(self.names) == 2 or self.names[0].endswith(_TWO_SIDED_SUFFIXES)

    @property
    def name(self) -> str:
        """The names as in the setting."""
        return ":".join(self.names)


def parse_mixture_item(text: str) -> MixtureItem:
    """Returns an item of `--mixture`.

    Args:
        text: `NAME:RATE` or `SOURCE:TARGET:RATE`, with a rate such as 2, 0.25 or 1/3.

    Raises:
        UserError: If the text has another format, or the rate is not a number above 0
            and at most 1,000.

    >>> parse_mixture_item("more.en:more.de:1/4").rate
    Fraction(1, 4)
    """
    *names, rate_text = text.split(":")
    if len(names) > 1 and _VERSION.fullmatch(names[-1]):
        version = names.pop()
        names[-1] += f":{version}"
    if not (1 <= len(names) <= 2 and all(names)):
        raise UserError(
            "An item of --mixture must be NAME:RATE (a dataset, a folder of records, a "
            ".tsv or .mrg file) or SOURCE:TARGET:RATE (two text files), such as "
            f"more.en:more.de:0.25. Received: {text!r}"
        )
    return MixtureItem(tuple(names), _parse_rate(rate_text, text))


def _parse_rate(rate_text: str, text: str) -> Fraction:
    try:
        # An exact fraction: the float 0.1 is slightly more than a tenth.
        rate = Fraction(rate_text)
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if not 0 < rate <= _MAX_RATE:
        raise UserError(
            "The rate of an item of --mixture must be a number above 0 and at most "
            f"{_MAX_RATE}, such as 2, 0.25 or 1/3: the number of times that an epoch "
            f"has each of its pairs. Received: {text!r}"
        )
    return rate


def make_names_absolute(text: str) -> str:
    """Returns the item with absolute paths of its files."""
    names, rate = parse_mixture_item(text)
    if is_records_folder(names[0]) or parse_mixture_item(text).is_text:
        names = tuple(os.path.abspath(os.path.expanduser(name)) for name in names)
    return ":".join([*names, str(rate)])


def is_records_folder(name: str) -> bool:
    """Returns whether a name is that of a folder of records, not of a dataset."""
    return os.path.isfile(os.path.join(name, "manifest.json"))
