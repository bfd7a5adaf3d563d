"""Faulty variant of the code: one function, and the expression in it that changes."""

import ast
from dataclasses import dataclass
from pathlib import Path


class DoesNotApply(Exception):  # noqa: N818 - it is what the message says
    """Error: the function or expression that a variant changes is not in the code."""


@dataclass(frozen=True)
class Mutation:
    """A mistake that a competent engineer might make.

    Attributes:
        name: What is wrong.
        module: Dotted name of the module.
        function: Qualified name within it: "function", "Class.method", "outer.inner".
        old: Source of the expression, or the simple statement, that is replaced.
        new: Source of the replacement.
        index: Which of several occurrences, from 0; None if there is only one.
        may_hang: Why the variant may exceed the time limit, or "" if it should not. A
            timeout counts as caught only if this is set.
    """

    name: str
    module: str
    function: str
    old: str
    new: str
    index: int | None = None
    may_hang: str = ""

    @property
    def address(self) -> str:
        """The module without its top-level package, and the function."""
        return f"{self.module.partition('.')[2]}.{self.function}"

    def path(self, root: Path) -> Path:
        """Returns the module's file below the root of a checkout.

        Raises:
            DoesNotApply: If there is none.
        """
        path = root.joinpath(*self.module.split(".")).with_suffix(".py")
        if not path.is_file():
            raise DoesNotApply(f"{self.name}: there is no module {self.module}")
        return path

    def apply(self, source: str) -> str:
        """Returns the module's source with the variant in it.

        Comments and formatting of the source are lost, because of `ast.unparse`.

        Raises:
            DoesNotApply: If the function is missing, or does not contain the
                expression as often as `index` requires.
        """
        tree = ast.parse(source)
        function = _find(tree, self.function.split("."))
        if function is None:
            raise DoesNotApply(f"{self.name}: no {self.function} in {self.module}")
        old = _parse(self.old)
        expected_node = ast.dump(old)
        places = [
            node
            for node in ast.walk(function)
            if type(node) is type(old) and ast.dump(node) == expected_node
        ]
        expected = "exactly once" if self.index is None else f"{self.index + 1} times"
        fits = len(places) == 1 if self.index is None else len(places) > self.index
        if not fits:
            raise DoesNotApply(
                f"{self.name}: {self.module}.{self.function} should hold {self.old!r} "
                f"{expected}. Found: {len(places)}"
            )
        place = places[self.index or 0]
        tree = _Replacer(place, _parse(self.new)).visit(tree)
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Replacer(ast.NodeTransformer):
    def __init__(self, place: ast.AST, new: ast.AST):
        self._place = place
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._place else self.generic_visit(node)


def _parse(source: str) -> ast.AST:
    """Returns the source as an expression, or as a statement if it is not one."""
    try:
        return ast.parse(source, mode="eval").body
    except SyntaxError:
        (statement,) = ast.parse(source).body
        return statement


def _find(tree: ast.AST, names: list[str]) -> ast.AST | None:
    """Returns the function or class with nested `names`, or None."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    for name in names:
        inner = (node for node in ast.walk(tree) if isinstance(node, kinds))
        found = next((n for n in inner if n.name == name and n is not tree), None)
        if found is None:
            return None
        tree = found
    return tree
