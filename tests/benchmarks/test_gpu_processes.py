"""Processes of the GPU kit end in time, with all that they started."""

import os
import select
import signal
import subprocess
import sys

import pytest

from benchmarks.gpu.processes import Ended, run_process
from tests.forked import REPOSITORY

# A process that holds a pipe open for a minute.
HOLDS = """
import os, sys, time
pipe = open(sys.argv[1], "wb", 0)
pipe.write(b"x")
os.write(1, b"x")
time.sleep(60)
"""
# One that starts it, and goes on when it holds the pipe.
STARTS = """
import subprocess, sys, time
command = [sys.executable, "-c", sys.argv[2], sys.argv[1]]
subprocess.Popen(command, stdout=subprocess.PIPE).stdout.read(1)
"""
# One that runs it as the kit runs programs.
RUNS = """
import os, sys
from benchmarks.gpu.processes import run_process
command = [sys.executable, "-c", sys.argv[2], sys.argv[1]]
run_process(command, os.curdir, os.environ, 60)
"""


class Pipe:
    """Named pipe that tells whether a process holds its other end."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self) -> bytes:
        """Returns what is written, b"" after the end of all who held it."""
        readable, _, _ = select.select([self._end], [], [], 20)
        assert readable, "a process still runs"
        return os.read(self._end, 1)


@pytest.fixture
def pipe(tmp_path) -> Pipe:
    return Pipe(tmp_path / "pipe")


def run(code: str, *arguments: object, seconds: float = 30.0) -> Ended:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return run_process(command, REPOSITORY, os.environ, seconds)


@pytest.mark.parametrize(("then", "status"), [("time.sleep(60)", None), ("", 0)])
def test_children_end_with_their_process(pipe, then, status) -> None:
    ended = run(STARTS + then, pipe.path, HOLDS, seconds=2.0)
    assert ended.status == status
    assert pipe.read() == b"x"
    assert pipe.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_process_ends_with_the_one_that_waits_for_it(pipe, number) -> None:
    command = [sys.executable, "-c", RUNS, str(pipe.path), HOLDS]
    waiting = subprocess.Popen(
        command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True
    )
    assert pipe.read() == b"x"
    waiting.send_signal(number)
    _, errors = waiting.communicate(timeout=20)
    if number == signal.SIGKILL:
        assert sys.platform != "linux" or pipe.read() == b""
        return
    assert errors == f"stopped by {number.name}; the same command continues\n"
    assert waiting.returncode == 1
    assert pipe.read() == b""


def test_errors_are_named() -> None:
    assert run("raise SystemExit('too few')").error == "too few"
    raised = run("raise ValueError('a\\nb')\n")
    assert (raised.status, raised.error) == (1, "ValueError: a")
    killed = run("import os; os.kill(os.getpid(), 9)")
    assert (killed.status, killed.error) == (-9, "ended by signal 9; no message")
    jax = Ended(1, "Traceback:\njax.errors.JaxRuntimeError: full\n---\nFor simplicity")
    assert jax.error == "jax.errors.JaxRuntimeError: full"
