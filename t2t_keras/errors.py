"""Errors that the user can fix, with messages that explain how."""

import difflib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from types import MappingProxyType
from typing import Any

# Modules of the packages of each extra in pyproject.toml that a task can need.
EXTRAS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "beam": ("apache_beam",),
        "convert": ("safetensors", "yaml"),
        "ctranslate2": ("ctranslate2",),
        "filters": ("py3langid",),
        "formats": ("pyarrow", "zstandard"),
        "remote": ("fsspec", "s3fs", "gcsfs"),
        "report": ("jinja2", "matplotlib"),
        "serve": (
            "anyio",
            "babel",
            "grpc_health",
            "h11",
            "jinja2",
            "prometheus_client",
            "py3langid",
            "python_multipart",
            "starlette",
            "uvicorn",
        ),
    }
)


class UserError(ValueError):
    """An argument, setting or file that cannot be used.

    The message names it, what was expected, what was received, and what to do.
    Programs print it without a traceback and exit with status 2. Library callers can
    catch it as a `ValueError`.
    """


def did_you_mean(word: str, possibilities: Sequence[str]) -> str:
    """Returns " Did you mean ...?" with the closest name; "" if none is close."""
    matches = difflib.get_close_matches(str(word), possibilities, n=1, cutoff=0.5)
    return f" Did you mean {matches[0]}?" if matches else ""


def check_at_least(minimum: int, **numbers: int) -> None:
    """Raises `UserError` if an argument is smaller than a minimum."""
    for name, number in numbers.items():
        if not isinstance(number, Real) or number < minimum:
            raise UserError(f"{name} must be at least {minimum}. Received: {number}")


def check_text(name: str, value: Any) -> None:
    """Raises `UserError` unless a value is a text: a string, or its bytes."""
    if not isinstance(value, str | bytes | bytearray):
        raise UserError(f"{name} must be a text. Received: {value!r:.60}")


def check_list(name: str, values: Any) -> None:
    """Raises `UserError` unless values are a list or another iterable, and no text."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UserError(f"{name} must be in a list. Received: {values!r:.60}")


class MissingPackage(UserError):  # noqa: N818 - named for what is wrong
    """An optional package that cannot be imported."""


@contextmanager
def require_package(task: str, package: str) -> Iterator[None]:
    """Turns an `ImportError` in the block into advice to install a package.

    Args:
        task: Task that needs the package, as the beginning of a sentence.
        package: Name of the package for pip.

    Raises:
        MissingPackage: If an import in the block fails.
    """
    try:
        yield
    except ImportError as error:
        raise MissingPackage(
            f"{task} needs the package {package}, which cannot be imported: {error}. "
            f"Install it: pip install {package}"
        ) from error


def require_extra(task: str, extra: str, *modules: str) -> None:
    """Raises `MissingPackage` if a package of an extra is not installed.

    None is imported, so that a program can ask at its start.

    Args:
        task: Task that needs the packages, as the beginning of a sentence.
        extra: A name in `EXTRAS`.
        *modules: Those of its modules that the task needs. Default: all.
    """
    needed = modules or EXTRAS[extra]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPackage(
            f"{task} needs packages that are not installed ({', '.join(missing)}): "
            f'pip install "t2t_keras[{extra}]"'
        )
