"""Style checks that our linter lacks.

Each function checks the repository below `root` and returns one line per fault.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import parse, python_files, relative, text_files

LONGEST_FUNCTION = 60
LONGEST_PROGRAM = 40
VAGUE_NAMES = frozenset({"base", "common", "helpers", "manager", "misc", "utils"})
MUTABLE_CALLS = frozenset(
    {"Counter", "OrderedDict", "bytearray", "defaultdict", "deque", "dict", "list"}
    | {"set"}
)

# Files with a test that needs a program that pip does not install, or JAX, which is
# optional. If it is missing, the test is skipped with a reason.
EXPLAINED_SKIPS = frozenset(
    {
        "tests/parsing/test_evalb_table.py",
        "tests/attention/browser.py",
        "tests/serving/server/test_conformance.py",
        "tests/system/c_programs.py",
        "tests/system/test_network_examples.py",
        "tests/with_jax.py",
    }
)

# An absolute home or work folder, but not "docs/home/" or "https://x.org/home/".
MACHINE_PATH = re.compile(r"(?<![\w.~/}-])/(?:home|mnt|root|srv|Users|work\w*)/\w")
# The source of packages is a setting of the user, never of the project.
REGISTRY = re.compile(
    r"pypi\.(?:org|python)|pythonhosted\.|(?:extra-)?index[-_]url\b\s*[=:]"
    r"|--find[-]links|https?://[^\s/]*(?:artifactory|nexus|mirror)",
    re.IGNORECASE,
)


def long_functions(root: Path) -> list[str]:
    """Functions whose signature and body fill more than a screen.

    Docstrings are not counted, so that explaining arguments costs nothing.
    """
    return [
        f"{relative(path, root)}:{node.lineno}: {node.name} has {lines} lines; "
        f"split it (at most {LONGEST_FUNCTION})"
        for path in python_files(root)
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := _code_lines(node)) > LONGEST_FUNCTION
    ]


def thick_programs(root: Path) -> list[str]:
    """Programs with more lines in functions and classes than one call needs.

    What a program does belongs in a package, where other code can call it. Docstrings
    are not counted.
    """
    return [
        f"{relative(path, root)}: {lines} lines in functions and classes; move them to "
        f"a package (at most {LONGEST_PROGRAM})"
        for path in python_files(root)
        if path.parent == root / "t2t_keras"
        and (lines := _lines_in_definitions(parse(path))) > LONGEST_PROGRAM
    ]


def mutable_globals(root: Path) -> list[str]:
    """Lists, dicts and sets at the top level of a module: hidden state."""
    return [
        f"{relative(path, root)}:{line}: a mutable container at module level; "
        "use a tuple, a frozenset, MappingProxyType or a function"
        for path in python_files(root)
        for line in _mutable_lines(parse(path).body)
    ]


def crowded_inits(root: Path) -> list[str]:
    """Package `__init__` files that contain anything but a docstring.

    The file of `t2t_keras` also has the version and the environment variables that
    TensorFlow reads at start. Its BUILD target declares no deps, so it imports none.
    """
    inits = [path for path in python_files(root) if path.name == "__init__.py"]
    return [
        f"{relative(path, root)}: an __init__ holds one docstring and nothing else"
        for path in inits
        if path != root / "t2t_keras" / "__init__.py" and not _is_docstring(path)
    ]


def vague_names(root: Path) -> list[str]:
    """Modules with vague names, which attract unrelated code."""
    return [
        f"{relative(path, root)}: name the module for what it holds"
        for path in python_files(root)
        if path.stem in VAGUE_NAMES or path.parent.name in VAGUE_NAMES
    ]


def skipped_tests(root: Path) -> list[str]:
    """Tests that may be skipped or are expected to fail."""
    marks = {"skip", "skipif", "xfail", "importorskip"}
    return [
        f"{relative(path, root)}:{node.lineno}: {ast.unparse(node)}; make it run"
        for path in python_files(root)
        if path.is_relative_to(root / "tests")
        and relative(path, root) not in EXPLAINED_SKIPS
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute)
        and node.attr in marks
        and ast.unparse(node).startswith("pytest.")
    ]


def machine_traces(root: Path) -> list[str]:
    """Absolute paths of one machine, and hosts of package registries."""
    return [
        f"{relative(path, root)}:{number}: {pattern_name}: {found.group()}"
        for path, text in text_files(root)
        for number, line in enumerate(text.splitlines(), start=1)
        for pattern_name, pattern in (
            ("a path of one machine", MACHINE_PATH),
            ("where packages come from", REGISTRY),
        )
        if (found := pattern.search(line))
    ]


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    whole = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is None:
        return whole
    docstring = node.body[0]
    return whole - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def _lines_in_definitions(module: ast.Module) -> int:
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return sum(
        _code_lines(node) for node in module.body if isinstance(node, definitions)
    )


def _mutable_lines(statements: list[ast.stmt]) -> Iterator[int]:
    for node in statements:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            if node.value is not None and _is_mutable(node.value):
                yield node.lineno
        elif not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            # The bodies of if, for, try and with also run at import.
            for field in ("body", "orelse", "finalbody", "handlers"):
                yield from _mutable_lines(getattr(node, field, []))


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Tuple):
        return any(_is_mutable(element) for element in value.elts)
    if isinstance(value, ast.IfExp):
        return _is_mutable(value.body) or _is_mutable(value.orelse)
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).split(".")[-1] in MUTABLE_CALLS
    displays = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    return isinstance(value, displays)


def _is_docstring(path: Path) -> bool:
    body = parse(path).body
    return len(body) == 1 and ast.get_docstring(parse(path)) is not None
