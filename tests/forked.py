"""Processes of Python that a fork server starts in a fifth of a second.

They behave like those of `subprocess`, except that TensorFlow is imported already. What
tests a start itself, such as its imports, starts an interpreter with `subprocess`.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
# Environment variable with the folder of the fork server.
_FOLDER = "FORK_SERVER"
_READ_AT_IMPORT = (
    "HOME",
    "KERAS_",
    "LANG",
    "LC_",
    "PYTHON",
    "TF_CPP_",
    "TF_ENABLE_",
    "TF_USE_",
)


class ForkedProcess(subprocess.Popen):
    """The process of `subprocess.Popen([sys.executable, *arguments])`, forked.

    An interpreter is started where a fork would not be the same: for options of Python,
    and with other variables than this process has that imports read.

    Args:
        *arguments: Arguments of Python: `-m` and a module, `-c` and code, or a file.
        **settings: The streams, `cwd` and `env`, as in `subprocess.Popen`.
    """

    def __init__(self, *arguments: object, **settings: Any):
        command = [sys.executable, *map(str, arguments)]
        imported = json.loads((fork_server() / "environment.json").read_text())
        is_plain = command[1] in ("-m", "-c") or not command[1].startswith("-")
        own = _read_at_import(settings.get("env") or os.environ)
        self._forks = is_plain and own == imported
        super().__init__(command, **settings)

    def _execute_child(self, *settings: Any) -> None:
        if not self._forks:
            super()._execute_child(*settings)
            return
        command, _, _, _, _, folder, environment = settings[:7]
        pipes = settings[10:16]
        request = {
            "arguments": command[1:],
            "folder": os.path.abspath(folder or "."),
            "environment": dict(environment or os.environ),
        }
        given = (pipes[0], pipes[3], pipes[5])
        streams = [own if end == -1 else end for own, end in enumerate(given)]
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(fork_server() / "socket"))
            socket.send_fds(connection, [json.dumps(request).encode()], streams)
            connection.shutdown(socket.SHUT_WR)
            self._answers = connection.makefile()
        self.pid = int(self._answers.readline())
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _wait(self, timeout: float | None) -> int:
        if not self._forks:
            return super()._wait(timeout)
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._answers.readline())
            self._answers.close()
        return self.returncode

    def _internal_poll(self, *settings: Any, **named: Any) -> int | None:
        if not self._forks:
            return super()._internal_poll(*settings, **named)
        try:
            return self._wait(0)
        except subprocess.TimeoutExpired:
            return None


def run_python(
    *arguments: object, input: bytes = b"", **settings: Any
) -> subprocess.CompletedProcess[bytes]:
    """Returns the result of `python *arguments`, which runs to its end.

    Args:
        *arguments: See `ForkedProcess`.
        input: Standard input.
        **settings: `cwd` and `env`. Default: this repository, this environment.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with ForkedProcess(*arguments, **{"cwd": REPOSITORY, **settings}, **pipes) as child:
        output, errors = child.communicate(input)
    return subprocess.CompletedProcess(child.args, child.returncode, output, errors)


def fork_server() -> Path:
    """Returns the folder of the fork server's socket, and starts the server once.

    Child processes use the same one.
    """
    if _FOLDER not in os.environ:
        _start_server()
    return Path(os.environ[_FOLDER])


def _start_server() -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "environment.json").write_text(json.dumps(_read_at_import(os.environ)))
    server = subprocess.Popen(
        [sys.executable, REPOSITORY / "tests/fork_server.py", folder],
        # It ends when this process ends, by a signal too, which closes the pipe.
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    os.environ[_FOLDER] = str(folder)


def command_path() -> str:
    """Returns a search path for a shell, on which `python` starts forked processes."""
    folder = fork_server() / "bin"
    python = folder / "python"
    if not python.exists():
        folder.mkdir()
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} "$@"\n')
        python.chmod(0o755)
    own = Path(sys.executable).parent
    return os.pathsep.join([str(folder), str(own), os.environ["PATH"]])


def _run_for_shell() -> None:
    """Runs a forked process in place of this one, which has its signals and status."""
    process = ForkedProcess(*sys.argv[1:])
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: process.send_signal(number))
    status = process.wait()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that are read while Python or a package is imported."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_IMPORT) and name != "PYTHONPATH"
    }


if __name__ == "__main__":
    _run_for_shell()
