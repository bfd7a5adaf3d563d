"""Commands of docs/evaluation.md, executed, with the output that the page shows."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.forked import REPOSITORY, command_path


def code_blocks() -> list[tuple[str, str]]:
    """Returns language and content of all blocks, in order."""
    page = (REPOSITORY / "docs/evaluation.md").read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": command_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def comparable(text: str) -> list[str]:
    """Returns lines without versions of packages, and without cut ends."""
    lines = text.replace(" \n", "\n").splitlines()
    return [
        re.sub(r"version:\S+|\|smooth:none\S*|\|punct:\S*|\|…", "", x) for x in lines
    ]


@pytest.mark.slow
def test_the_commands_print_what_the_page_shows(tmp_path):
    blocks = code_blocks()
    shown = 0
    for (language, content), (next_language, expected) in zip(
        blocks, [*blocks[1:], ("", "")], strict=True
    ):
        if language == "bash":
            output = run(["bash", "-e", "-c", content], tmp_path)
            if next_language == "text":
                assert comparable(output) == comparable(expected), content
                shown += 1
            else:
                assert output == "", content
        elif language == "python":
            assert "p = " in run(["python", "-c", content], tmp_path)
    assert shown == 4
