"""From a run to an answer of Argos Translate: the commands of docs/argos.md."""

import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from benchmarks.imports.argos_export import ask_argos, translate
from tests.forked import REPOSITORY, command_path, run_python

SENTENCES = (
    "The old woman reads a book.",
    "Does the dog sleep?",
    "The teacher gave the child three red apples!",
)


def shell_blocks() -> list[str]:
    """Returns the blocks of commands of the page."""
    text = (REPOSITORY / "docs/argos.md").read_text("utf-8")
    return re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_shell(commands: str, folder: Path) -> list[str]:
    """Returns the lines that commands print."""
    environment = {**os.environ, "PATH": command_path(), "HOME": str(folder)}
    # Argos Translate has packages of its own.
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        ["bash", "-ec", commands],
        check=True,
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**environment, "ARGOS_COMPUTE_TYPE": "float32"},
    )
    return done.stdout.decode().splitlines()


@pytest.mark.release
@pytest.mark.timeout(3000)
def test_the_page_ends_with_an_answer_of_argos_translate(tmp_path) -> None:
    """It trains runs/tiny, and Argos Translate translates as CTranslate2 does."""
    flags = "--flagfile=configs/tiny.flags", f"--model_dir={tmp_path / 'runs/tiny'}"
    done = run_python("-m", "t2t_keras.train", *flags, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    write, use = shell_blocks()
    export = write.splitlines()[-1].split()
    assert export[:3] == ["python", "-m", "t2t_keras.export"]
    done = run_python(*export[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (answer,) = run_shell(use, tmp_path)[-1:]
    (package,) = (tmp_path / "runs/tiny/export_argos/1").iterdir()
    with zipfile.ZipFile(package) as archive:
        archive.extractall(tmp_path)
    (sentence,) = re.findall('"(.*)"$', use, re.MULTILINE)
    assert translate(tmp_path / package.stem, [sentence]) == [answer]
    python = str(tmp_path / "argos/bin/python")
    found = ask_argos(python, package, ("en", "de"), SENTENCES, tmp_path)
    expected = translate(tmp_path / package.stem, SENTENCES)
    assert found == {"lines": expected, "paragraph": " ".join(expected)}
