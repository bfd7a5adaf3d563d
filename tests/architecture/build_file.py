"""BUILD reader, by `ast`: Starlark's grammar is a subset of Python's."""

import ast
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import parse, relative

PYTHON_RULES = ("py_library", "py_binary", "py_test")


@dataclass(frozen=True)
class Target:
    """Target of BUILD, with its globs expanded to paths below the root."""

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
        """Whether all its Python files are tests or helpers of tests."""
        return all(path.startswith("tests/") for path in self.modules.values())

    @property
    def modules(self) -> dict[str, str]:
        """Maps the dotted name of each module of this target to its path.

        The runner of a `py_test` is in the srcs of many targets and belongs to none.
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
        ValueError: If BUILD contains anything but `load`, `package` and calls of
            rules with literal arguments, because this reader would silently skip it.
    """
    targets = []
    for node in parse(root / "BUILD").body:
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
    """Strings of a list, of `glob(...)`, or of a sum of these."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _strings(node.left, root) + _strings(node.right, root)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "glob":
        return _expand_glob(node, root)
    return tuple(ast.literal_eval(node))


def _expand_glob(call: ast.Call, root: Path) -> tuple[str, ...]:
    excluded: set[Path] = set()
    for keyword in call.keywords:
        if keyword.arg != "exclude":
            raise ValueError(f"BUILD:{call.lineno}: glob({keyword.arg}=) is not read")
        for pattern in ast.literal_eval(keyword.value):
            excluded |= set(root.glob(pattern))
    included: set[Path] = set()
    for pattern in ast.literal_eval(call.args[0]):
        # To Python, but not to Bazel, "**" at the end means folders alone.
        included |= set(
            root.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)
        )
    paths = sorted(path for path in included - excluded if path.is_file())
    return tuple(relative(path, root) for path in paths)
