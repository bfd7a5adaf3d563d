"""Server that forks Python processes after it has imported TensorFlow.

An import of TensorFlow takes seconds, a fork a fifth of one. At the first request, the
server imports the project and what it needs. It runs no operation, and forks once for
each request. So each child has its own TensorFlow runtime, files and signals, and ends
like any interpreter.

Each request is a connection to a Unix socket: JSON of `arguments`, `folder` and
`environment`, with the descriptors of standard input, output and error. The answers are
lines: the child's process id, then its exit status as `subprocess` has it.
"""

import atexit
import contextlib
import importlib
import json
import os
import random
import runpy
import select
import selectors
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODULES = (
    "tensorflow",
    "tensorflow_text",
    "t2t_keras.runs.run",
    "t2t_keras.runs.finish",
    "t2t_keras.runs.training.training_run",
    "t2t_keras.runs.export.saved_model",
    "t2t_keras.server.tf_serving.development_server",
)


class ForkServer:
    """Forks for each request until standard input ends.

    Args:
        path: Where the socket is created.
    """

    def __init__(self, path: str):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path)
        self._socket.listen(64)
        # Python writes the number of each signal to a pipe, which `select` waits for.
        self._signals = os.pipe()
        for descriptor in self._signals:
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._signals[1])
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._clients: dict[int, socket.socket] = {}

    def has_request(self) -> bool:
        """Waits for the first request; False at the end of the server."""
        ready, _, _ = select.select([self._socket, sys.stdin], [], [])
        return sys.stdin not in ready

    def serve(self) -> dict[str, Any] | None:
        """Returns the request in a child process; None at the end of the server."""
        with selectors.DefaultSelector() as selector:
            for source in (self._socket, self._signals[0], sys.stdin):
                selector.register(source, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if sys.stdin in ready:
                    return None
                if self._signals[0] in ready:
                    self._report_ended()
                if self._socket in ready and (request := self._fork()):
                    return request

    def _fork(self) -> dict[str, Any] | None:
        client, _ = self._socket.accept()
        data, descriptors, _, _ = socket.recv_fds(client, 65536, 3)
        while part := client.recv(65536):
            data += part
        pid = os.fork()
        if pid == 0:
            self._become_child(client, descriptors)
            return json.loads(data)
        for descriptor in descriptors:
            os.close(descriptor)
        self._clients[pid] = client
        client.sendall(b"%d\n" % pid)
        return None

    def _become_child(self, client: socket.socket, descriptors: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self._socket, client, *self._clients.values()):
            each.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        for descriptor in (*self._signals, *descriptors):
            os.close(descriptor)

    def _report_ended(self) -> None:
        os.read(self._signals[0], 4096)
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._clients.pop(pid) as client, contextlib.suppress(OSError):
                client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def run(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Does in this process what `python *arguments` would do."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    _renew_streams()
    random.seed()
    sys.modules["numpy"].random.seed()
    kind, *rest = arguments
    if kind == "-m":
        sys.argv, sys.path[0] = rest, folder
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(rest[0], vars(sys.modules["__main__"]))
    else:
        sys.argv, sys.path[0] = arguments, str(Path(kind).resolve().parent)
        runpy.run_path(kind, run_name="__main__")


def _renew_streams() -> None:
    """Gives Python streams of the descriptors 0, 1 and 2, as at its start."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = open(
            number,
            "r" if number == 0 else "w",
            encoding="utf-8",
            errors="backslashreplace" if number == 2 else "strict",
            buffering=1 if number == 2 else -1,
            closefd=False,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _exit_with_status(call: Callable[[], None]) -> None:
    """Ends the process as the interpreter does, but for freeing all of its memory.

    That would take a second, since each freed object copies a page of the server's.
    """
    status = 0
    try:
        call()
    except KeyboardInterrupt:
        status = -signal.SIGINT
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


def import_modules() -> dict[str, str]:
    """Imports what programs need; returns the environment variables that this sets."""
    before = dict(os.environ)
    sys.path[0] = os.getcwd()
    quiet = importlib.import_module("t2t_keras.files.quiet")
    with quiet.quiet_start_up():
        for module in MODULES:
            importlib.import_module(module)
    # Only a program that imports TensorFlow itself hides that it finds no GPU.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return {name: os.environ[name] for name in os.environ.keys() - before.keys()}


def main() -> None:
    """Says that it listens, and serves; in a child, runs what was asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = ForkServer(f"{sys.argv[1]}/socket")
    print("ready", flush=True)
    if not server.has_request():
        return
    added = import_modules()
    request = server.serve()
    if request is not None:
        request["environment"] = {**added, **request["environment"]}
        _exit_with_status(lambda: run(**request))


if __name__ == "__main__":
    main()
