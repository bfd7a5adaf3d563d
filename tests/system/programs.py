"""Programs that run beside a test, and do not outlive it."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class Program(subprocess.Popen):
    """`python -m t2t_keras.NAME` with some variables in its environment.

    What it says goes to files: a pipe that nobody reads would stop it.
    """

    def __init__(self, name: str, *arguments: str, env: Mapping[str, str]):
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]
        super().__init__(
            [sys.executable, "-m", f"t2t_keras.{name}", *arguments],
            cwd=REPOSITORY,
            env=env,
            stdout=self._files[0],
            stderr=self._files[1],
            # A group of its own, with those that it starts itself.
            start_new_session=True,
        )

    def ended(self, seconds: float) -> tuple[str, str]:
        """Waits for its end; returns what it said as output and as errors."""
        self.wait(seconds)
        for file in self._files:
            file.seek(0)
        output, errors = (file.read() for file in self._files)
        return output, errors

    def close(self) -> None:
        """Ends it and those that it has started, whatever they do."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()
        for file in self._files:
            file.close()


class Programs:
    """A context that starts programs, and ends those that still run in the end."""

    def __init__(self) -> None:
        self._started: list[Program] = []

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._started:
            program.close()

    def start(self, name: str, *arguments: str, env: Mapping[str, str]) -> Program:
        """Starts `python -m t2t_keras.NAME`."""
        self._started.append(Program(name, *arguments, env=env))
        return self._started[-1]
