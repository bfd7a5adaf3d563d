"""Commands of README's sections "Serving" and "Quick start".

The former are executed with the reverse-task model.
"""

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from t2t_keras import Run
from tests.forked import REPOSITORY, command_path, run_python
from tests.server.tf_serving.clients import wait_until


def code_blocks(language="", title="Serving"):
    """Returns a section's code blocks in order."""
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(reverse_run, tmp_path):
    """A folder as after the training command of the README."""
    (tmp_path / "runs/tiny").mkdir(parents=True)
    (tmp_path / "runs/tiny/export").symlink_to(reverse_run.model_dir.export)
    return tmp_path


def environment():
    """Returns an environment where `python` is this Python, with this project."""
    packages = os.pathsep.join([str(REPOSITORY), *sys.path])
    return {**os.environ, "PATH": command_path(), "PYTHONPATH": packages}


@pytest.fixture
def lock_port():
    """Makes other runs of this test wait, because the README uses a fixed port."""
    with open(Path(tempfile.gettempdir()) / "t2t_keras-port-8500.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("lock_port")
def test_a_server_and_a_client(folder, make_translator):
    serve, ask = code_blocks()
    (sentence,) = re.findall('echo "(.*)"', ask)
    out = folder / "out"
    with (
        out.open("wb") as file,
        subprocess.Popen(
            ["bash", "-c", f"exec {serve}"],
            cwd=folder,
            env=environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        try:
            ready = "serving translate version 1 on port 8500"
            wait_until(
                lambda: ready in out.read_text() or server.poll() is not None,
                out.read_text,
            )
            # The output explains it if another program uses the port.
            assert ready in out.read_text(), out.read_text()
            asked = subprocess.run(
                ["bash", "-c", ask],
                cwd=folder,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=400,
                check=False,
            )
        finally:
            server.send_signal(signal.SIGTERM)
    assert server.returncode == 128 + signal.SIGTERM
    assert asked.returncode == 0, asked.stderr
    (expected,) = make_translator().translate([sentence])
    assert asked.stdout == f"{expected.text}\n"


@pytest.mark.slow
def test_the_python_program(folder, make_translator):
    (program,) = code_blocks("python")
    (sentence,) = re.findall(r'tf\.constant\(\["(.*)"\]\)', program)
    done = run_python("-c", program, cwd=folder)
    assert done.returncode == 0, done.stderr
    text, _, score = done.stdout.decode().rstrip("\n").rpartition(" ")
    (expected,) = make_translator().translate([sentence])
    assert text == expected.text
    assert float(score) == pytest.approx(expected.hypotheses[0].score, abs=1e-5)


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_the_quick_start_ends_as_the_readme_says(tmp_path):
    install, ending, ask, answer = code_blocks(title="Quick start")
    train = install.partition("&&")[2].split()[1:]
    done = run_python(*train, f"--model_dir={tmp_path / 'runs/tiny'}", cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    bleu = re.compile(r"^  BLEU (\S+) ", re.MULTILINE)
    ends = [float(bleu.search(each)[1]) for each in (ending, done.stdout.decode())]
    # Another processor rounds sums otherwise, which grows over 1,500 updates.
    assert ends[1] == pytest.approx(ends[0], abs=1.0)
    (sentence,) = re.findall('echo "(.*)"', ask)
    (line,) = Run(tmp_path / "runs/tiny").translate([sentence])
    # Most words are those of the page, on any processor.
    theirs, ours = answer.split(), line.text.split()
    assert len(theirs) == len(ours)
    assert sum(map(str.__eq__, theirs, ours)) >= len(theirs) - 2
