"""Imports of a Python file, including those inside functions, and files it reads."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import FOLDERS, parse, relative

# Variables from which paths to files of the repository begin.
PLACES = ("__file__", "REPOSITORY", "ROOT")
NAME = re.compile(r"\w[\w./-]{0,99}")


@dataclass(frozen=True)
class Import:
    """One imported module: `module`, or its child `name` if that is a module."""

    module: str
    name: str
    line: int


def read_imports(path: Path) -> Iterator[Import]:
    """Yields every absolute import of the file at `path`.

    Imports inside functions, branches and `TYPE_CHECKING` blocks count, and so
    does `import_module("a.b")` with a literal name. Packages that a third-party
    package imports but does not require count too: TensorBoard for `tf.summary`,
    and importlib_resources for TensorFlow Datasets.
    """
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, "", node.lineno)
                if alias.name == "tensorflow_datasets":
                    yield Import("importlib_resources", "", node.lineno)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield Import(node.module or "", alias.name, node.lineno)
        elif isinstance(node, ast.Call) and _is_import_module(node):
            yield Import(ast.literal_eval(node.args[0]), "", node.lineno)
        elif (
            getattr(node, "attr", "") == "summary" and ast.unparse(node) == "tf.summary"
        ):
            yield Import("tensorboard", "", node.lineno)


def read_paths(path: Path, root: Path) -> list[str]:
    """Files of the repository at `root` that a Python file names.

    A name is a text, or several joined by `/`, in a file that knows its own place.
    Python files do not count: imports have checks of their own.
    """
    nodes = list(ast.walk(parse(path)))
    if not any(isinstance(node, ast.Name) and node.id in PLACES for node in nodes):
        return []
    texts = {text for node in nodes if NAME.fullmatch(text := _joined_text(node))}
    folders = [folder for folder in path.parents if folder.is_relative_to(root)]
    found = [folder / text for folder in folders for text in texts]
    there = {each for each in found if each.is_file() and each.suffix != ".py"}
    names = sorted(relative(each, root) for each in there)
    # A run that a user trained here has the names of those that tests train elsewhere.
    return [name for name in names if "/" not in name or name.startswith(FOLDERS)]


def _joined_text(node: ast.AST) -> str:
    """Text of a constant, or of the constants of a path; "" of anything else."""
    if _is_text(node):
        return getattr(node, "value", "")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        texts = (_joined_text(node.left), _joined_text(node.right))
        return "/".join(filter(None, texts))
    return ""


def parent_packages(module: str) -> list[str]:
    """Packages whose `__init__` Python runs before `module`: a, a.b for a.b.c."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _is_import_module(call: ast.Call) -> bool:
    function = getattr(call.func, "attr", getattr(call.func, "id", ""))
    is_import = function in ("import_module", "__import__")
    return is_import and bool(call.args) and _is_text(call.args[0])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
