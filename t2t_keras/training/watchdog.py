"""Says where a run hangs: a thread that writes all stacks down, and kills nothing."""

import contextlib
import faulthandler
import sys
import threading
import time
from pathlib import Path
from typing import TextIO


class Watchdog:
    """Dumps the stacks of all threads when nothing got done for a while.

    A lost network file system, a collective that waits for a worker that is gone, a
    deadlock: from outside they all look alike. The stacks say which it is. Whether
    to wait longer or to stop is for whoever reads them, so nothing is stopped. Once
    something gets done again, the next silence is reported anew.

    Used as a context: the watch begins and ends with it.

    Args:
        seconds: Of silence until stacks are written; 0 to never write them.
        stacks_file: Where they are added, besides `stream`.
        stream: Where they go first; standard error if None. It must have a file
            descriptor: stacks are written by C code, which needs no lock.
    """

    def __init__(self, seconds: float, stacks_file: Path, stream: TextIO | None = None):
        self._seconds = seconds
        self._stacks_file = stacks_file
        self._stream = stream
        self._last_sign = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="watchdog", daemon=True
        )

    def __enter__(self) -> "Watchdog":
        self.heartbeat()
        if self._seconds:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._seconds:
            self._thread.join()

    def heartbeat(self) -> None:
        """Notes that something got done."""
        self._last_sign = time.monotonic()

    def _watch(self) -> None:
        reported: float | None = None
        while True:
            last = self._last_sign
            wait = last + self._seconds - time.monotonic()
            if wait <= 0 and last != reported:
                reported = last
                self._report()
            # After a report, look again now and then whether life has come back.
            if self._ended.wait(wait if wait > 0 else self._seconds / 4):
                return

    def _report(self) -> None:
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        text = (
            f"warning: {when}: no step, evaluation batch or checkpoint was finished "
            f"for {self._seconds / 60:.3g} minutes. Training is not stopped. What "
            f"each thread is doing (kept in {self._stacks_file} too):\n"
        )
        self._dump(text, self._stream or sys.stderr)
        # A disk that hangs may be the reason; one that is full is no reason to die.
        with contextlib.suppress(OSError), open(self._stacks_file, "a") as file:
            self._dump(text, file)

    def _dump(self, text: str, stream: TextIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()
            faulthandler.dump_traceback(stream, all_threads=True)
