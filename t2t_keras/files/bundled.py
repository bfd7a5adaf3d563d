"""Bundled files: flagfiles and corpora, in a checkout or in an installed package.

A checkout has `configs/` and `data/` next to the package; a wheel has them inside it.
Files in the working directory always come first.
"""

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.files.lines import read_text

CONFIGS = "configs"
DATA = "data"

_OPTIONS = ("--flagfile", "-flagfile")


def bundled_folder(name: str) -> Path:
    """Returns the folder of the bundled `configs` or `data`, in a checkout or wheel."""
    # Links are not followed: Bazel makes each file a link to its source.
    package = Path(__file__).parents[1].absolute()
    inside = package / name
    # Tried first: folders next to an installed package are not ours.
    return inside if inside.is_dir() else package.parent / name


def matching_flagfiles(pattern: str) -> list[str]:
    """Returns the flagfiles that match a pattern, as values of --flagfile.

    Raises:
        UserError: If no file matches, in the working directory or the bundled configs.
    """
    candidates = _candidate_paths(os.path.expanduser(pattern))
    if paths := sorted(glob.glob(candidates[0])):
        return paths
    # Names below configs/ mean the same in any working directory.
    root = bundled_folder(CONFIGS).parent
    if paths := [path for each in candidates[1:] for path in sorted(glob.glob(each))]:
        return [Path(path).relative_to(root).as_posix() for path in paths]
    raise _missing_flagfile(pattern, candidates)


def expand_flagfiles(arguments: Sequence[str]) -> list[str]:
    """Returns a command line with each --flagfile replaced by the lines of its file.

    absl does the same, but looks in the working directory only.

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
        value = path if equals else next(rest, None)
        if value is None:
            raise UserError("--flagfile needs the path of a file: --flagfile=FILE.")
        expanded += _read_arguments(value, ())
    return expanded


def _read_arguments(path: str, parents: tuple[str, ...]) -> Iterator[str]:
    """Yields the arguments in a flagfile and in those that it includes."""
    if not path.strip():
        return
    file = _find_flagfile(path.strip())
    if file in parents:
        raise UserError(
            f"The flagfile {path} names itself: {' → '.join([*parents, file])}."
        )
    text = read_text(file, f"The flagfile {file}")
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if name in _OPTIONS and equals:
            yield from _read_arguments(value, (*parents, file))
        elif line.strip() and not line.startswith(("#", "//")):
            yield line.strip()


def _find_flagfile(path: str) -> str:
    """Returns the path of an existing flagfile."""
    candidates = _candidate_paths(os.path.expanduser(path))
    for candidate in candidates:
        if os.path.exists(candidate):
            return candidate
    raise _missing_flagfile(path, candidates)


def _candidate_paths(path: str) -> list[str]:
    """Returns the paths to try for a flagfile: as written, then the bundled one."""
    folder, *below = Path(path).parts or ("",)
    if folder != CONFIGS or not below:
        return [path]
    return [path, str(bundled_folder(CONFIGS).joinpath(*below))]


def _missing_flagfile(path: str, candidates: Sequence[str]) -> UserError:
    tried = " or ".join(dict.fromkeys(map(os.path.abspath, candidates)))
    configs = bundled_folder(CONFIGS)
    names = [
        f"{CONFIGS}/{file.relative_to(configs).as_posix()}"
        for file in sorted(configs.rglob("*.flags"))
    ]
    hint = did_you_mean(path, names)
    return UserError(f"There is no flagfile {path}: no file {tried}.{hint}")
