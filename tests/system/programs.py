"""Programs that run beside a test, and do not outlive it."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
# In the environment of a program, and so of all that it starts.
_MARK = "STARTED_BY_A_TEST"


class Program(subprocess.Popen):
    """`python -m t2t_keras.NAME` with some variables in its environment.

    What it says goes to files: a pipe that nobody reads would stop it.
    """

    def __init__(self, name: str, *arguments: str, env: Mapping[str, str]):
        self._mark = uuid.uuid4().hex
        self._files = [tempfile.TemporaryFile() for _ in range(2)]
        super().__init__(
            [sys.executable, "-m", f"t2t_keras.{name}", *arguments],
            cwd=REPOSITORY,
            env={**env, _MARK: self._mark},
            stdout=self._files[0],
            stderr=self._files[1],
        )

    def said(self) -> tuple[str, str]:
        """Returns what it has said so far, as output and as errors."""
        # Without a seek, which would move the place that it writes at.
        output, errors = (
            os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()
            for file in self._files
        )
        return output, errors

    def close(self) -> None:
        """Ends it and those that it has started, whatever they do."""
        self.kill()
        self.wait()
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for file in self._files:
            file.close()

    def _left(self) -> Iterator[int]:
        mark = f"{_MARK}={self._mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


class Programs:
    """A context that starts programs, and ends what is left of them in the end."""

    def __init__(self) -> None:
        self._at_the_end = contextlib.ExitStack()

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, *_: object) -> None:
        self._at_the_end.close()

    def start(self, name: str, *arguments: str, env: Mapping[str, str]) -> Program:
        """Starts `python -m t2t_keras.NAME`."""
        program = Program(name, *arguments, env=env)
        self._at_the_end.callback(program.close)
        return program
