"""Background processes of a test, ended with it."""

import contextlib
import os
import signal
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.forked import REPOSITORY, ForkedProcess

# Environment variable of a program, inherited by all its child processes.
_MARK = "STARTED_BY_A_TEST"


class Program(ForkedProcess):
    """`python -m t2t_keras.NAME` with some variables in its environment.

    Its output goes to files: it would block on a pipe that nobody reads.
    """

    def __init__(self, name: str, *arguments: str, env: Mapping[str, str]):
        self._mark = uuid.uuid4().hex
        self._files = [tempfile.TemporaryFile() for _ in range(2)]
        super().__init__(
            "-m",
            f"t2t_keras.{name}",
            *arguments,
            cwd=REPOSITORY,
            env={**env, _MARK: self._mark},
            stdout=self._files[0],
            stderr=self._files[1],
        )

    def read_output(self) -> tuple[str, str]:
        """Returns standard output and standard error so far."""
        # pread, because a seek would move the position that the program writes at.
        output, errors = (
            os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()
            for file in self._files
        )
        return output, errors

    def close(self) -> None:
        """Kills the program and all its child processes."""
        self.kill()
        self.wait()
        for pid in self._find_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for file in self._files:
            file.close()

    def _find_children(self) -> Iterator[int]:
        mark = f"{_MARK}={self._mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


class Programs:
    """Context manager that starts programs and ends them when it exits."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, name: str, *arguments: str, env: Mapping[str, str]) -> Program:
        """Starts `python -m t2t_keras.NAME`."""
        program = Program(name, *arguments, env=env)
        self._stack.callback(program.close)
        return program
