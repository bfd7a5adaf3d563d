"""Processes of ours, with signals passed on to them."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from t2t_keras.files.signals import handle_signals
from t2t_keras.reports.ablation.shares import ALL, Share

# How long to wait between two looks at a process.
_SECONDS = 1.0


class Children:
    """Runs programs of this package, from several threads at once if need be.

    A context. SIGINT and SIGTERM go to the programs that run, which save what they
    have, and are remembered: nothing is started after one. If this process is killed
    outright, what runs goes on to its end.

    Attributes:
        signal_number: The first signal that came, None if none did.
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
        look: Callable[[], object] = lambda: None,
        share: Share = ALL,
    ) -> int:
        """Runs a program to its end and returns its exit status.

        Args:
            program: `train`, say.
            arguments: Its flags.
            log: Where what it says goes, after what is there.
            look: Called every second while it runs.
            share: What it may use of the machine.

        Returns:
            Its status; 128 and its number after a signal.
        """
        if self.signal_number is not None:
            return 128 + self.signal_number
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as said:
            child = subprocess.Popen(
                [sys.executable, "-m", f"t2t_keras.{program}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **share.environment},
                # Ctrl-C in a terminal goes to all processes of a group; here to us.
                start_new_session=True,
            )
        share.hold(child.pid)
        self._running.append(child)
        if self.signal_number is not None:  # it came while the child was started
            child.send_signal(self.signal_number)
        status = None
        while status is None:
            try:
                status = child.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                look()
        self._running.remove(child)
        return 128 - status if status < 0 else status

    def _pass_on(self, number: int) -> None:
        self.signal_number = self.signal_number or number
        for child in list(self._running):
            child.send_signal(number)


def last_line(log: Path) -> str:
    """Returns the last line of a log that says something."""
    try:
        text = log.read_bytes()[-8192:].decode(errors="replace")
    except OSError:
        return "nothing was said"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else "nothing was said"
