"""Style checks that our linter lacks.

Each function checks the repository below `root` and returns one line per fault.
"""

import ast
import re
from pathlib import Path

from tests.architecture.tree import parse, python_files, relative, text_files

# Files with a test that needs a program that pip does not install, or JAX or PyTorch,
# which are optional. If it is missing, the test is skipped with a reason.
EXPLAINED_SKIPS = frozenset(
    {
        "tests/parsing/test_evalb_table.py",
        "tests/pictures/browser.py",
        "tests/benchmarks/test_gpu_peers.py",
        "tests/server/tf_serving/test_conformance.py",
        "tests/system/c_programs.py",
        "tests/system/test_network_examples.py",
        "tests/system/test_slurm.py",
        "tests/system/test_beam.py",
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
