"""CI runs the commands that README and CONTRIBUTING.md give."""

import os

from tests.architecture.tree import ROOT

TEST_COMMAND = 'pip install -e ".[test]" && pytest'


def test_readme_and_ci_have_the_same_test_command() -> None:
    for path in ["README.md", ".ci/run"]:
        assert TEST_COMMAND in (ROOT / path).read_text(encoding="utf-8"), path


def test_pages_and_ci_run_the_slow_tests_by_the_same_command() -> None:
    for path in ["README.md", "CONTRIBUTING.md", ".ci/run"]:
        assert "pytest -m slow" in (ROOT / path).read_text(encoding="utf-8"), path


def test_contributing_and_the_ci_workflow_name_the_ci_script() -> None:
    for path in ["CONTRIBUTING.md", ".github/workflows/ci.yml"]:
        assert ".ci/run" in (ROOT / path).read_text(encoding="utf-8"), path


def test_the_ci_script_is_executable() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
