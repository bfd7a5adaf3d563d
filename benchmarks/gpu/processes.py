"""Processes that end in time, and never outlive the program that started them."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PR_SET_PDEATHSIG = 1
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        status: Exit status, below 0 for a signal; None if the time was up.
        log: What it wrote to standard error.
    """

    status: int | None
    log: str

    @property
    def error(self) -> str:
        """Line of the log that says why the process failed."""
        lines = self.log.strip().splitlines()
        # Behind its error, JAX explains how it shortened the traceback.
        errors = [
            line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)
        ]
        reason = (errors or lines or ["no message"])[-1][:500]
        if self.status is not None and self.status < 0:
            return f"ended by signal {-self.status}; {reason}"
        return reason


def run_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> Ended:
    """Runs a command for some seconds at most, then kills it and its children.

    A signal that ends this program kills them, too.

    Args:
        command: Program and arguments.
        folder: Working directory.
        environment: Variables of the environment.
        seconds: Most seconds.

    Raises:
        SystemExit: After Ctrl-C, SIGTERM or SIGHUP.
    """
    with _signals_exit(), tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=log,
            # Its own group, to reach its children: PyTorch compiles in processes.
            process_group=0,
            preexec_fn=_end_with_parent,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        return Ended(status, log.read().decode(errors="replace"))


@contextlib.contextmanager
def _signals_exit() -> Iterator[None]:
    """Lets signals raise `SystemExit`, except those that the caller ignores."""
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _exit(number: int, _: object) -> None:
    name = signal.Signals(number).name
    sys.exit(f"stopped by {name}; the same command continues")


def _end_with_parent() -> None:
    """Lets Linux kill the new process when its parent is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
