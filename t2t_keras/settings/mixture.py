"""The setting `--mixture`: further training corpora and their rates."""

import os
import re
from fractions import Fraction
from typing import NamedTuple

from t2t_keras.errors import UserError

# What holds both sides of its pairs in one file.
_BOTH_SIDES = (".tsv", ".mrg", ".tsv.gz", ".mrg.gz")
# TFDS names a version behind a colon.
_VERSION = re.compile(r"(\d+|\*)\.(\d+|\*)\.(\d+|\*)")
# A pair seen so often in an epoch is more likely a slip of the hand.
_HIGHEST_RATE = 1000


class MixtureItem(NamedTuple):
    """One item of `--mixture`, as it was written.

    Attributes:
        names: A dataset, a folder of records or a file of both sides; or else a source
            file and a target file.
        rate: How often each pair is seen, on average, in an epoch of the main corpus.
    """

    names: tuple[str, ...]
    rate: Fraction

    @property
    def is_text(self) -> bool:
        """Whether it names text files."""
        return len(self.names) == 2 or self.names[0].endswith(_BOTH_SIDES)

    @property
    def name(self) -> str:
        """Its names as they were written."""
        return ":".join(self.names)


def mixture_item(text: str) -> MixtureItem:
    """Returns an item of `--mixture`.

    Args:
        text: `NAME:RATE` or `SOURCE:TARGET:RATE`; the rate as 2, 0.25 or 1/3.

    Raises:
        UserError: If it is neither, or the rate is no number above 0, or above 1,000.

    >>> mixture_item("more.en:more.de:1/4").rate
    Fraction(1, 4)
    """
    *names, rate_text = text.split(":")
    if len(names) > 1 and _VERSION.fullmatch(names[-1]):
        version = names.pop()
        names[-1] += f":{version}"
    if not (1 <= len(names) <= 2 and all(names)):
        raise UserError(
            "An item of --mixture must be NAME:RATE (a dataset, a folder of records, a "
            ".tsv or .mrg file) or SOURCE:TARGET:RATE (two text files), as in "
            f"more.en:more.de:0.25. Received: {text!r}"
        )
    return MixtureItem(tuple(names), _rate(rate_text, text))


def _rate(rate_text: str, text: str) -> Fraction:
    try:
        # As it was written: the float of 0.1 is a little more than a tenth.
        rate = Fraction(rate_text)
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if not 0 < rate <= _HIGHEST_RATE:
        raise UserError(
            "The rate of an item of --mixture must be a number above 0, at most "
            f"{_HIGHEST_RATE}: how often each of its pairs is seen in an epoch, as 2, "
            f"0.25 or 1/3. Received: {text!r}"
        )
    return rate


def with_absolute_names(text: str) -> str:
    """Returns an item that means the same files from any directory."""
    names, rate = mixture_item(text)
    if holds_records(names[0]) or mixture_item(text).is_text:
        names = tuple(os.path.abspath(os.path.expanduser(name)) for name in names)
    return ":".join([*names, str(rate)])


def holds_records(name: str) -> bool:
    """Returns whether a name is a folder of records, not a dataset's."""
    return os.path.isfile(os.path.join(name, "manifest.json"))
