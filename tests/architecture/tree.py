"""The files of the repository that the house rules speak about."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Named, rather than all that lies in the checkout: a user's virtual environment,
# runs and downloads may lie there too.
FOLDERS = (
    *(".ci", ".github", "benchmarks", "configs", "data", "docs", "examples"),
    *("t2t_keras", "tests"),
)
LARGEST_TEXT_BYTES = 1_000_000


def files(root: Path) -> list[Path]:
    """The files of the repository at `root`, sorted."""
    # In a linked worktree, .git is a file. Bazel starts a test by a file _test_….py.
    names = (path for path in root.iterdir() if path.is_file())
    found = [p for p in names if p.name != ".git" and not p.name.startswith("_")]
    for folder in FOLDERS:
        found += [path for path in (root / folder).rglob("*") if path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def python_files(root: Path) -> list[Path]:
    """The Python files of the repository at `root`, sorted."""
    return [path for path in files(root) if path.suffix == ".py"]


def text_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file of the repository that is UTF-8 text below a megabyte."""
    for path in files(root):
        if path.stat().st_size > LARGEST_TEXT_BYTES:
            continue
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def parsed(path: Path) -> ast.Module:
    """The syntax tree of the Python (or Starlark) file at `path`."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def relative(path: Path, root: Path) -> str:
    """The path below `root` with forward slashes, as BUILD writes it."""
    return path.relative_to(root).as_posix()
