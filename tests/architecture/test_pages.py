"""Pages that point at code and tests point at what exists, and belongs together."""

import ast
import functools
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.imports import imports_of
from tests.architecture.tree import ROOT, files, parsed

ROW = re.compile(r"^\| (?!statement|---)(.+?) \| `(.+?)` \| `(.+?)::(.+?)` \|$", re.M)
# Programs that a test starts as processes.
STARTED = re.compile(r"\"(t2t_keras\.\w+)\"|run_program\(\s*\"(\w+)\"")
# Links within the repository, without their anchors; code has quotes in it.
LINK = re.compile(r"""\]\(([^)#:"'\s]+)(?:#[^)]*)?\)""")
PAGES = ("paper.md", "invariants.md")


class Row(NamedTuple):
    """A statement, the file that says the same, and the test that holds it."""

    statement: str
    code: Path
    test_file: Path
    test: str


def rows_of(text: str) -> list[Row]:
    return [
        Row(
            statement,
            Path(os.path.normpath(ROOT / "t2t_keras" / code)),
            Path(os.path.normpath(ROOT / "tests" / file)),
            test,
        )
        for statement, code, file, test in ROW.findall(text)
    ]


def file_of(module: str) -> Path | None:
    place = module.replace(".", "/")
    for path in (f"{place}.py", f"{place}/__init__.py", f"data/{place}.py"):
        if (ROOT / path).is_file():
            return ROOT / path
    return None


@functools.cache
def met_in(file: Path) -> tuple[Path, ...]:
    """The files of the repository that a Python file imports or starts."""
    modules = [
        name
        for each in imports_of(file)
        for name in (each.module, f"{each.module}.{each.name}")
    ]
    for module, program in STARTED.findall(file.read_text(encoding="utf-8")):
        modules.append(module or f"t2t_keras.{program}")
    return tuple(filter(None, map(file_of, set(modules))))


@functools.cache
def reached_from(file: Path) -> frozenset[Path]:
    """The file, what it imports or starts, what that imports, and so on."""
    found: set[Path] = set()
    waiting = [file, *(folder / "conftest.py" for folder in file.parents)]
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file():
            found.add(path)
            waiting += met_in(path)
    return frozenset(found)


def faults_of(row: Row) -> list[str]:
    """What is wrong with a row, in words; nothing if it is sound."""
    if not row.code.exists() or not row.test_file.is_file():
        return [f"{row.statement}: {row.code} or {row.test_file} is missing"]
    tests = [
        node.name
        for node in parsed(row.test_file).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if row.test not in tests:
        return [f"{row.statement}: {row.test_file} has no test {row.test}"]
    if row.code.suffix == ".py":
        met = row.code in reached_from(row.test_file)
    else:  # a flagfile, or a folder of them
        met = row.code.stem in row.test_file.read_text(encoding="utf-8")
    return [] if met else [f"{row.statement}: {row.test_file} never meets {row.code}"]


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_code_and_a_test_that_exist_and_meet(page) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = rows_of(text)
    table_lines = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| statement"))
    ]
    assert len(rows) == len(table_lines) > 0
    assert [fault for row in rows for fault in faults_of(row)] == []
    statements = [row.statement for row in rows]
    assert len(set(statements)) == len(statements)


UNSOUND_ROWS = (
    ("layers/mask.py", "model/test_masks.py::test_x", "is missing"),
    ("model/masks.py", "layers/test_mask.py::test_x", "is missing"),
    ("model/masks.py", "model/test_masks.py::test_nothing_of_it", "no test"),
    # A function of the file, but no test.
    ("model/layers.py", "model/test_layers.py::rng", "no test"),
    (
        "input_pipeline/batches/batching.py",
        "model/test_transformer.py::test_logits_are_the_papers",
        "never meets",
    ),
    (
        "../configs/multi30k.flags",
        "settings/test_flags.py::test_no_flag_gives_the_defaults",
        "never meets",
    ),
)


def test_a_row_that_is_not_sound_is_caught() -> None:
    for code, test, fault in UNSOUND_ROWS:
        (row,) = rows_of(f"| A statement | `{code}` | `{test}` |")
        (found,) = faults_of(row)
        assert fault in found, (code, test)


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
