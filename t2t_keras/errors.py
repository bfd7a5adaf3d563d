"""Errors that are meant for the person at the keyboard."""

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class UserError(ValueError):
    """Something the user gave cannot be used as it is.

    The message names the thing, what was expected, what came, and what to do.
    Programs print it without a traceback and exit with status 2; a library
    caller catches it as the `ValueError` it is.
    """


def did_you_mean(word: str, possibilities: Sequence[str]) -> str:
    """Returns " Did you mean ...?" with the nearest name; nothing if none is near."""
    matches = difflib.get_close_matches(word, possibilities, n=1, cutoff=0.5)
    return f" Did you mean {matches[0]}?" if matches else ""


class MissingPackage(UserError):  # noqa: N818 - named for what is wrong
    """A package that only some tasks need cannot be imported."""


@contextmanager
def needed_for(task: str, package: str) -> Iterator[None]:
    """Says which package to install if what is imported inside cannot be.

    Args:
        task: What needs it, as the beginning of a sentence.
        package: Its name for pip.

    Raises:
        MissingPackage: If the import fails.
    """
    try:
        yield
    except ImportError as error:
        raise MissingPackage(
            f"{task} needs the package {package}, which cannot be imported: {error}. "
            f"Install it: pip install {package}"
        ) from error
