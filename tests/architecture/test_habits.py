"""Style checks pass in this repository, and each check finds only its own fault."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import habits
from tests.architecture.tree import ROOT

Check = Callable[[Path], list[str]]

CHECKS = (
    habits.machine_traces,
    habits.skipped_tests,
)

# Split, because the whole string would be a fault of this file.
HOME, SKIP = "home", "skip"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_this_repository_keeps_the_habit(check: Check) -> None:
    assert check(ROOT) == []


FAULTS = (
    (
        habits.skipped_tests,
        "tests/test_a.py",
        f"import pytest\n@pytest.mark.{SKIP}if(True)\ndef test(): pass\n",
        f"test_a.py:2: pytest.mark.{SKIP}if; make it run",
    ),
    (
        habits.machine_traces,
        "docs/a.md",
        f"\nrun `/{HOME}/ada/t2t`\n",
        f"docs/a.md:2: a path of one machine: /{HOME}/a",
    ),
    (
        habits.machine_traces,
        "requirements.txt",
        f"a @ https://files.python{'hosted'}.org/a.whl\n",
        "requirements.txt:1: where packages come from",
    ),
)


def test_a_planted_fault_is_the_one_fault_found(tmp_path: Path) -> None:
    for number, (check, path, text, fault) in enumerate(FAULTS):
        root = tmp_path / str(number)
        root.mkdir()
        assert check(root) == [], check.__name__
        _write(root / path, text)
        faults = check(root)
        assert len(faults) == 1, (path, text)
        assert fault in faults[0], (path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
