"""Files of the repository to which the code rules apply."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Listed, because a checkout may also contain a virtual environment, runs and downloads.
FOLDERS = (
    ".ci",
    ".github",
    "benchmarks",
    "client",
    "configs",
    "data",
    "docs",
    "examples",
    "t2t_keras",
    "tests",
)
LARGEST_TEXT_BYTES = 1_000_000


def files(root: Path) -> list[Path]:
    """Files of the repository at `root`, sorted."""
    # In a linked worktree, .git is a file. Bazel starts a test by a file _test_….py.
    top = (path for path in root.iterdir() if path.is_file())
    paths = [p for p in top if p.name != ".git" and not p.name.startswith("_")]
    for folder in FOLDERS:
        paths += [path for path in (root / folder).rglob("*") if path.is_file()]
    built = {"__pycache__", "build", "node_modules"}
    inside = {path: set(path.relative_to(root).parts) for path in paths}
    return sorted(path for path in paths if not inside[path] & built)


def python_files(root: Path) -> list[Path]:
    """Python files of the repository at `root`, sorted."""
    return [path for path in files(root) if path.suffix == ".py"]


def text_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Yields path and text of each file that is UTF-8 and below a megabyte."""
    for path in files(root):
        if path.stat().st_size > LARGEST_TEXT_BYTES:
            continue
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@functools.cache
def parse(path: Path) -> ast.Module:
    """Syntax tree of the Python (or Starlark) file at `path`; do not change it."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def relative(path: Path, root: Path) -> str:
    """Path below `root` with forward slashes, as in BUILD."""
    return path.relative_to(root).as_posix()
