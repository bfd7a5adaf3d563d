"""docs/paper.md points at code and tests that exist."""

import ast
import re

from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "paper.md"
ROW = re.compile(r"^\| (?!statement|---)(.+?) \| `(.+?)` \| `(.+?)::(.+?)` \|$", re.M)


def test_every_row_names_code_and_a_test_that_exist():
    text = PAGE.read_text(encoding="utf-8")
    rows = ROW.findall(text)
    table_lines = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| statement"))
    ]
    assert len(rows) == len(table_lines) > 30
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
