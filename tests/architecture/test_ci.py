"""CI runs what the README and CONTRIBUTING.md tell people to run."""

import os

from tests.architecture.tree import ROOT

TEST_COMMAND = 'pip install -e ".[test]" && pytest'


def test_the_test_command_is_the_same_word_for_word() -> None:
    for path in ["README.md", ".ci/run"]:
        assert TEST_COMMAND in (ROOT / path).read_text(encoding="utf-8"), path


def test_ci_runs_the_slow_tests_as_people_are_told_to() -> None:
    for path in ["README.md", "CONTRIBUTING.md", ".ci/run"]:
        assert "pytest -m slow" in (ROOT / path).read_text(encoding="utf-8"), path


def test_the_one_command_is_named_where_people_and_servers_look() -> None:
    for path in ["CONTRIBUTING.md", ".github/workflows/ci.yml"]:
        assert ".ci/run" in (ROOT / path).read_text(encoding="utf-8"), path


def test_the_one_command_can_be_started() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
