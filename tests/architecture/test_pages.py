"""References of pages to code, to tests and to other pages: all of them exist."""

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, files

ROW = re.compile(r"^\| (?!statement|---)(.+?) \| `(.+?)` \| `(.+?)::(.+?)` \|$", re.M)
# Links within the repository, and their anchors. Code is no link: it contains quotes.
LINK = re.compile(r"""\]\(([^)#:"'\s]*)(?:#([^)]*))?\)""")


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
        f"{page.relative_to(ROOT)}: {link}#{anchor}"
        for page in pages
        for link, anchor in LINK.findall(page.read_text("utf-8"))
        if not (link or anchor)
        or not leads_somewhere(page.parent / link if link else page, anchor)
    ]
    assert dead == []


def leads_somewhere(target: Path, anchor: str) -> bool:
    if not target.exists():
        return False
    return target.suffix != ".md" or not anchor or anchor in anchors(target)


def anchors(page: Path) -> set[str]:
    """Returns the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        numbers = (f"-{number}" if number else "" for number in range(99))
        found.add(next(name + end for end in numbers if name + end not in found))
    return found
