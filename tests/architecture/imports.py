"""Imports of a Python file, including those inside functions."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import parse


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
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "tf.summary":
            yield Import("tensorboard", "", node.lineno)


def parent_packages(module: str) -> list[str]:
    """Packages whose `__init__` Python runs before `module`: a, a.b for a.b.c."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _is_import_module(call: ast.Call) -> bool:
    function = ast.unparse(call.func)
    is_import = function.split(".")[-1] in ("import_module", "__import__")
    return is_import and bool(call.args) and _is_text(call.args[0])


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
