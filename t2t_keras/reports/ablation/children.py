"""Child processes that run programs of this package and receive its signals."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from t2t_keras.files.signals import handle_signals
from t2t_keras.reports.ablation.resources import ALL, RunResources

# Seconds between two polls of a process.
_SECONDS = 1.0


class Children:
    """Context manager that runs programs of this package; it is thread-safe.

    SIGINT and SIGTERM are passed on to the running programs, which save their state.
    After a signal no program is started. If this process is killed, the programs
    continue to their end.

    Attributes:
        signal_number: The first signal received; None if there was none.
    """

    def __init__(self):
        self.signal_number: int | None = None
        self._running: list[subprocess.Popen[bytes]] = []
        self._handlers = contextlib.ExitStack()

    def __enter__(self) -> "Children":
        self._handlers.enter_context(handle_signals(self._pass_on))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._handlers.close()

    def run(
        self,
        program: str,
        arguments: Sequence[str],
        log: Path,
        poll: Callable[[], object] = lambda: None,
        resources: RunResources = ALL,
    ) -> int:
        """Runs a program; returns its exit status, 128 and its number after a signal.

        Args:
            program: Name of the program, such as `train`.
            arguments: Its flags.
            log: File to which its output is appended.
            poll: Function to call every second while it runs.
            resources: Cores and GPUs that it may use.
        """
        if self.signal_number is not None:
            return 128 + self.signal_number
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", f"t2t_keras.{program}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **resources.environment},
                # Ctrl-C in a terminal goes to all processes of a group; here to us.
                start_new_session=True,
            )
        resources.pin(child.pid)
        self._running.append(child)
        if self.signal_number is not None:  # received during the start of the child
            child.send_signal(self.signal_number)
        status = None
        while status is None:
            try:
                status = child.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                poll()
        self._running.remove(child)
        return 128 - status if status < 0 else status

    def _pass_on(self, number: int) -> None:
        self.signal_number = self.signal_number or number
        for child in list(self._running):
            child.send_signal(number)


def last_line(log: Path) -> str:
    """Returns the last line of a log that is not blank."""
    try:
        text = log.read_bytes()[-8192:].decode(errors="replace")
    except OSError:
        return "no output"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else "no output"
