"""Pages that point at code and tests point at what exists."""

import ast
import re

import pytest

from tests.architecture.tree import ROOT

ROW = re.compile(r"^\| (?!statement|---)(.+?) \| `(.+?)` \| `(.+?)::(.+?)` \|$", re.M)


@pytest.mark.parametrize(
    ("page", "at_least"), [("paper.md", 35), ("invariants.md", 14)]
)
def test_every_row_names_code_and_a_test_that_exist(page, at_least):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = ROW.findall(text)
    table_lines = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| statement"))
    ]
    assert len(rows) == len(table_lines) >= at_least
    missing = [
        code for _, code, _, _ in rows if not (ROOT / "t2t_keras" / code).exists()
    ]
    for _, _, path, name in rows:
        file = ROOT / "tests" / path
        functions = ()
        if file.exists():
            tree = ast.parse(file.read_text(encoding="utf-8"))
            functions = tuple(
                node.name
                for node in ast.walk(tree)
                if isinstance(node, ast.FunctionDef)
            )
        if name not in functions:
            missing.append(f"{path}::{name}")
    assert missing == []
