"""Programs that run beside a test, and do not outlive it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_started: list["Program"] = []


class Program(subprocess.Popen):
    """`python -m t2t_keras.NAME` with some variables in its environment.

    What it says goes to files: a pipe that nobody reads would stop it.
    """

    def __init__(self, name: str, *arguments: str, env: Mapping[str, str] = os.environ):
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]
        _started.append(self)
        super().__init__(
            [sys.executable, "-m", f"t2t_keras.{name}", *arguments],
            cwd=REPOSITORY,
            env=env,
            stdout=self._files[0],
            stderr=self._files[1],
        )

    def ended(self, seconds: float) -> tuple[str, str]:
        """Waits for its end; returns what it said as output and as errors."""
        self.wait(seconds)
        for file in self._files:
            file.seek(0)
        output, errors = (file.read() for file in self._files)
        return output, errors

    def close(self) -> None:
        """Ends it, whatever it does."""
        self.kill()
        self.wait()
        for file in self._files:
            file.close()


def end_all() -> None:
    """Ends what a test has left running."""
    while _started:
        _started.pop().close()
