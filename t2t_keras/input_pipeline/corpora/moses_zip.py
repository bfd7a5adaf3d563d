"""Zip archives of OPUS in Moses' format: two text files, line by line translations.

`X.de-en.en` and `X.de-en.de` are beside a README, a LICENSE and ids. The ends of their
names are the codes of the languages.
"""

import contextlib
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.lines import split_lines
from t2t_keras.files.remote import as_file_or_path
from t2t_keras.files.text_checks import CountedLines
from t2t_keras.text.languages import is_variant

LineReader = Callable[[Path], Iterator[bytes]]
_MOST_LISTED = 20


@contextlib.contextmanager
def open_moses_zip(
    path: Path, languages: Sequence[str]
) -> Iterator[tuple[list[Path], LineReader]]:
    """Yields the two members with the languages, and a function that reads one.

    Args:
        path: The archive. A member's name in messages is the archive's and its own.
        languages: Codes of source and target language.

    Raises:
        UserError: If the archive is damaged or encrypted, or has no member of a
            language or several; while reading, if a member is damaged or no text.
    """
    with _explained_faults(path):
        archive = zipfile.ZipFile(as_file_or_path(path))
    with archive:
        members = [
            name
            for name in archive.namelist()
            # macOS adds files with attributes of the others.
            if not (name.endswith("/") or name.startswith("__MACOSX/"))
        ]

        chosen = {path / name: name for name in _choose(members, languages, path)}

        def read(member: Path) -> Iterator[bytes]:
            with (
                _explained_faults(path),
                archive.open(chosen[member]) as file,
                io.BufferedReader(file) as reader,  # type: ignore[arg-type]
            ):
                yield from CountedLines(split_lines(reader, str(member)), str(member))

        yield [*chosen], read


def _choose(
    members: Sequence[str], languages: Sequence[str], path: Path
) -> tuple[str, str]:
    """Returns the members with source and target."""
    exact = [[n for n in members if _ending(n) == code.lower()] for code in languages]
    found = [
        same or [name for name in members if is_variant(_ending(name), code)]
        for same, code in zip(exact, languages, strict=True)
    ]
    if [len(names) for names in found] == [1, 1] and found[0] != found[1]:
        return found[0][0], found[1][0]
    ends = " and one in ".join(f".{code}" for code in languages) or "a language's code"
    listed = ", ".join(sorted(members)[:_MOST_LISTED]) or "none"
    raise UserError(
        f"{path} must have one file that ends in {ends}, as zip archives in Moses' "
        f"format of OPUS do. It has: {listed}"
        f"{', …' if len(members) > _MOST_LISTED else ''}. Set --source_language and "
        "--target_language to the ends of two of them, or unpack the archive and give "
        "the two files."
    )


def _ending(name: str) -> str:
    return Path(name).suffix[1:].lower()


@contextlib.contextmanager
def _explained_faults(path: Path) -> Iterator[None]:
    """Raises `UserError` for what reading an archive raises."""
    try:
        yield
    except zipfile.BadZipFile as error:
        raise UserError(
            f"{path} is a damaged or incomplete zip archive, or none ({error}). Copy "
            "or download it again."
        ) from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, say
        raise UserError(
            f"{path} cannot be unpacked here ({error}). Unpack it, and give its two "
            "files of text."
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
