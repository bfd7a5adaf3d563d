"""Reads BUILD: Starlark's grammar is a subset of Python's, so `ast` can."""

import ast
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import parsed, relative

PYTHON_RULES = ("py_library", "py_binary", "py_test")


@dataclass(frozen=True)
class Target:
    """One rule of BUILD, its globs expanded to paths below the root."""

    rule: str
    name: str
    line: int
    srcs: tuple[str, ...]
    deps: tuple[str, ...]
    data: tuple[str, ...]
    main: str
    import_roots: tuple[str, ...]

    @property
    def is_test(self) -> bool:
        """Whether all its Python files are tests, or help tests."""
        return all(path.startswith("tests/") for path in self.modules.values())

    @property
    def modules(self) -> dict[str, str]:
        """Maps each module of this target, by the name that imports it, to its path.

        The runner of a `py_test` stands in many targets and belongs to none.
        """
        runner = self.main if self.rule == "py_test" else ""
        if self.rule not in PYTHON_RULES:
            return {}
        return {self._module(path): path for path in self.srcs if path != runner}

    def _module(self, path: str) -> str:
        for root in self.import_roots:
            path = path.removeprefix(f"{root}/")
        return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def read_targets(root: Path) -> list[Target]:
    """The targets of `root`/BUILD, in the order of the file.

    Raises:
        ValueError: If BUILD holds anything but `load`, `package` and calls of
            rules with literal arguments: what this reader cannot read it would
            otherwise pass over in silence.
    """
    targets = []
    for node in parsed(root / "BUILD").body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            raise ValueError(f"BUILD:{node.lineno}: only calls of rules are read here")
        rule = ast.unparse(node.value.func)
        if rule not in ("load", "package"):
            targets.append(_target(rule, node.value, root))
    return targets


def _target(rule: str, call: ast.Call, root: Path) -> Target:
    given = {keyword.arg: keyword.value for keyword in call.keywords}

    def strings(argument: str) -> tuple[str, ...]:
        return _strings(given[argument], root) if argument in given else ()

    def string(argument: str) -> str:
        return ast.literal_eval(given[argument]) if argument in given else ""

    return Target(
        rule=rule,
        name=string("name"),
        line=call.lineno,
        srcs=strings("srcs"),
        deps=strings("deps"),
        data=strings("data"),
        main=string("main"),
        import_roots=strings("imports"),
    )


def _strings(node: ast.expr, root: Path) -> tuple[str, ...]:
    """The strings of a list, of `glob(...)`, or of a sum of those."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _strings(node.left, root) + _strings(node.right, root)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "glob":
        return _globbed(node, root)
    return tuple(ast.literal_eval(node))


def _globbed(call: ast.Call, root: Path) -> tuple[str, ...]:
    excluded: set[Path] = set()
    for keyword in call.keywords:
        if keyword.arg != "exclude":
            raise ValueError(f"BUILD:{call.lineno}: glob({keyword.arg}=) is not read")
        for pattern in ast.literal_eval(keyword.value):
            excluded |= set(root.glob(pattern))
    found: set[Path] = set()
    for pattern in ast.literal_eval(call.args[0]):
        found |= set(root.glob(pattern))
    paths = sorted(path for path in found - excluded if path.is_file())
    return tuple(relative(path, root) for path in paths)
