"""The list of programs, and the console scripts that start them."""

import re
import subprocess
import sys
import tomllib

import pytest

from t2t_keras import __version__
from t2t_keras.__main__ import PROGRAMS, console_script, main
from tests.forked import REPOSITORY
from tests.in_process import run_main


def test_every_program_is_listed_and_has_a_script():
    runnable = {
        path.stem
        for path in (REPOSITORY / "t2t_keras").glob("*.py")
        if 'if __name__ == "__main__":' in path.read_text() and path.stem[0] != "_"
    }
    assert set(PROGRAMS) == runnable
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert set(project["scripts"]) == {f"t2t-{name}" for name in PROGRAMS}
    assert set(project["scripts"].values()) == {"t2t_keras.__main__:console_script"}
    listed = re.findall(r"^\| `(\w+)` \|", (REPOSITORY / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(PROGRAMS)


@pytest.mark.parametrize("asked", [[], ["--help"]])
def test_the_list_has_a_line_for_each_program(asked):
    """In a process, which starts quickly, without TensorFlow."""
    command = [sys.executable, "-X", "importtime", "-m", "t2t_keras", *asked]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    named = re.findall(r"^  t2t-(\w+) +[A-Z]\w+ .*\.$", done.stdout, re.M)
    assert named == list(PROGRAMS)
    assert "t2t_keras" in done.stderr
    assert "tensorflow" not in done.stderr


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"t2t_keras {__version__}\n"


def test_a_program_name_as_an_argument_is_refused(capsys):
    assert main(["train", "--d_model=3"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "t2t-train" in printed.err


def test_a_console_script_runs_the_program_in_its_name():
    for name in PROGRAMS:
        done = run_main(console_script, f"/some/bin/t2t-{name}", "--help")
        assert done.status == 0, name
        assert f"python -m t2t_keras.{name} " in done.stdout, name


def test_a_script_of_another_name_is_refused():
    done = run_main(console_script, "/some/bin/t2t-tran")
    assert done.status == 2
    assert "t2t-tran " in done.stderr
    assert "t2t-train" in done.stderr
