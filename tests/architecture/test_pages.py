"""References of pages to code and tests: both exist, and the test uses the code."""

import ast
import functools
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.imports import read_imports
from tests.architecture.tree import ROOT, files, parse

ROW = re.compile(r"^\| (?!statement|---)(.+?) \| `(.+?)` \| `(.+?)::(.+?)` \|$", re.M)
# Programs that a test starts as a process.
STARTED = re.compile(r"\"(t2t_keras\.\w+)\"|run_program\(\s*\"(\w+)\"")
# Links within the repository, without anchors. Code is no link: it contains quotes.
LINK = re.compile(r"""\]\(([^)#:"'\s]+)(?:#[^)]*)?\)""")
PAGES = ("paper.md", "invariants.md")


class Row(NamedTuple):
    """Row of a table: a statement, the code that implements it, and its test."""

    statement: str
    code: Path
    test_file: Path
    test: str


def parse_rows(text: str) -> list[Row]:
    return [
        Row(
            statement,
            Path(os.path.normpath(ROOT / "t2t_keras" / code)),
            Path(os.path.normpath(ROOT / "tests" / file)),
            test,
        )
        for statement, code, file, test in ROW.findall(text)
    ]


def find_module(module: str) -> Path | None:
    place = module.replace(".", "/")
    for path in (f"{place}.py", f"{place}/__init__.py", f"data/{place}.py"):
        if (ROOT / path).is_file():
            return ROOT / path
    return None


@functools.cache
def imported_files(file: Path) -> tuple[Path, ...]:
    """Files of the repository that a Python file imports or starts as a process."""
    modules = [
        name
        for each in read_imports(file)
        for name in (each.module, f"{each.module}.{each.name}")
    ]
    for module, program in STARTED.findall(file.read_text(encoding="utf-8")):
        modules.append(module or f"t2t_keras.{program}")
    return tuple(filter(None, map(find_module, set(modules))))


@functools.cache
def reachable_files(file: Path) -> frozenset[Path]:
    """The file itself and all files that it imports or starts, transitively."""
    reached: set[Path] = set()
    waiting = [file, *(folder / "conftest.py" for folder in file.parents)]
    while waiting:
        path = waiting.pop()
        if path not in reached and path.is_file():
            reached.add(path)
            waiting += imported_files(path)
    return frozenset(reached)


def find_faults(row: Row) -> list[str]:
    """Messages about the faults of a row; empty if it has none."""
    if not row.code.exists() or not row.test_file.is_file():
        return [f"{row.statement}: {row.code} or {row.test_file} is missing"]
    tests = [
        node.name
        for node in parse(row.test_file).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if row.test not in tests:
        return [f"{row.statement}: {row.test_file} has no test {row.test}"]
    if row.code.suffix == ".py":
        is_used = row.code in reachable_files(row.test_file)
    else:  # a flagfile, or a folder of them
        is_used = row.code.stem in row.test_file.read_text(encoding="utf-8")
    if is_used:
        return []
    return [f"{row.statement}: {row.test_file} never uses {row.code}"]


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_code_and_a_test_that_uses_it(page) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = parse_rows(text)
    table_lines = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| statement"))
    ]
    assert len(rows) == len(table_lines) > 0
    assert [fault for row in rows for fault in find_faults(row)] == []
    statements = [row.statement for row in rows]
    assert len(set(statements)) == len(statements)


def test_relative_links_of_all_pages_lead_to_files() -> None:
    pages = [path for path in files(ROOT) if path.suffix == ".md"]
    assert len(pages) > 30
    dead = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in LINK.findall(page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]
    assert dead == []
