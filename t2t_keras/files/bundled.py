"""Bundled files: flagfiles and corpora, in a checkout or in an installed package.

A checkout has `configs/` and `data/` beside the package; a wheel has them inside it.
What the user has in the working directory always comes first.
"""

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError, did_you_mean

CONFIGS = "configs"
DATA = "data"

_OPTIONS = ("--flagfile", "-flagfile")


def bundled_folder(name: str) -> Path:
    """Returns where the bundled `configs` or `data` are, in a checkout or a wheel."""
    # Links are not followed: Bazel makes each file a link to where it came from.
    package = Path(__file__).parents[1].absolute()
    inside = package / name
    # Looked for first: what lies beside an installed package is not ours.
    return inside if inside.is_dir() else package.parent / name


def matching_flagfiles(pattern: str) -> list[str]:
    """Returns the flagfiles that a pattern names, as --flagfile takes them.

    Raises:
        UserError: If there is none in any of the places that were looked at.
    """
    places = _places(os.path.expanduser(pattern))
    if found := sorted(glob.glob(places[0])):
        return found
    # As names below configs/, which mean the same to whoever reads them next.
    ours = bundled_folder(CONFIGS).parent
    if found := [path for place in places[1:] for path in sorted(glob.glob(place))]:
        return [Path(path).relative_to(ours).as_posix() for path in found]
    raise _missing(pattern, places)


def with_flagfiles(arguments: Sequence[str]) -> list[str]:
    """Returns arguments with the lines of each flagfile in the place of its --flagfile.

    absl would do the same, but looks in the working directory only.

    Args:
        arguments: Without the name of the program.

    Raises:
        UserError: If a flagfile is missing, cannot be read or names itself.
    """
    expanded: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*expanded, argument, *rest]
        name, equals, path = argument.partition("=")
        if name not in _OPTIONS:
            expanded.append(argument)
            continue
        following = path if equals else next(rest, None)
        if following is None:
            raise UserError("--flagfile needs the path of a file: --flagfile=FILE.")
        expanded += _lines_of(following, ())
    return expanded


def _lines_of(path: str, above: tuple[str, ...]) -> Iterator[str]:
    """Yields the arguments in a flagfile and in those that it names.

    Args:
        path: As it was given; empty for none.
        above: The files that led here.
    """
    if not path.strip():
        return
    file = _found(path.strip())
    if file in above:
        raise UserError(
            f"The flagfile {path} names itself: {' → '.join([*above, file])}."
        )
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"The flagfile {file} cannot be read as text in UTF-8: {error}"
        ) from error
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if name in _OPTIONS and equals:
            yield from _lines_of(value, (*above, file))
        elif line.strip() and not line.startswith(("#", "//")):
            yield line.strip()


def _found(path: str) -> str:
    """Returns a flagfile as a path that can be opened."""
    places = _places(os.path.expanduser(path))
    for place in places:
        if os.path.exists(place):
            return place
    raise _missing(path, places)


def _places(path: str) -> list[str]:
    """Returns where a flagfile may be: as it is given, then where ours are."""
    folder, *below = Path(path).parts or ("",)
    if folder != CONFIGS or not below:
        return [path]
    return [path, str(bundled_folder(CONFIGS).joinpath(*below))]


def _missing(path: str, places: Sequence[str]) -> UserError:
    looked_at = " or ".join(dict.fromkeys(map(os.path.abspath, places)))
    ours = bundled_folder(CONFIGS)
    names = [
        f"{CONFIGS}/{file.relative_to(ours).as_posix()}"
        for file in sorted(ours.rglob("*.flags"))
    ]
    hint = did_you_mean(path, names)
    return UserError(f"There is no flagfile {path}: no file {looked_at}.{hint}")
