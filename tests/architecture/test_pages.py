"""References of pages to code, to tests and to other pages: all of them exist."""

import re

import pytest

from tests.architecture.tree import ROOT, files

ROW = re.compile(r"^\| (?!statement|---)(.+?) \| `(.+?)` \| `(.+?)::(.+?)` \|$", re.M)
# Links within the repository, without anchors. Code is no link: it contains quotes.
LINK = re.compile(r"""\]\(([^)#:"'\s]+)(?:#[^)]*)?\)""")


@pytest.mark.parametrize("page", ["paper.md", "invariants.md"])
def test_every_row_names_code_and_a_test(page) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = ROW.findall(text)
    table_lines = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| statement"))
    ]
    assert len(rows) == len(table_lines) > 0
    for statement, code, file, test in rows:
        assert (ROOT / "t2t_keras" / code).exists(), statement
        tests = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"\ndef {test}(" in tests, statement


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
