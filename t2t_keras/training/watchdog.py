"""Watchdog thread that logs the stacks of all threads when training hangs."""

import contextlib
import faulthandler
import sys
import threading
import time
from pathlib import Path
from typing import TextIO


class Watchdog:
    """Dumps the stacks of all threads if there is no heartbeat for some time.

    A lost network file system, a collective operation that waits for a dead worker and
    a deadlock look alike from outside. The stacks show which it is. The user decides
    whether to wait longer or to stop, so the watchdog stops nothing. After another
    heartbeat it can report again.

    Used as a context, in which it is active.

    Args:
        seconds: Seconds without a heartbeat until stacks are written; 0 for never.
        stacks_file: File that they are appended to, after `stream`.
        stream: First place that they are written to. Default: standard error. It must
            have a file descriptor: C code writes the stacks, which needs no lock.
    """

    def __init__(self, seconds: float, stacks_file: Path, stream: TextIO | None = None):
        self._seconds = seconds
        self._stacks_file = stacks_file
        self._stream = stream
        self._last_heartbeat = time.monotonic()
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
        """Notes that a step, evaluation batch or checkpoint is finished."""
        self._last_heartbeat = time.monotonic()

    def _watch(self) -> None:
        reported: float | None = None
        while True:
            last = self._last_heartbeat
            wait = last + self._seconds - time.monotonic()
            if wait <= 0 and last != reported:
                reported = last
                self._report()
            # After a report, check regularly for a new heartbeat.
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
        # After the stream, for the disk may be what hangs; a full disk is ignored.
        with contextlib.suppress(OSError), open(self._stacks_file, "a") as file:
            self._dump(text, file)

    def _dump(self, text: str, stream: TextIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()
            faulthandler.dump_traceback(stream, all_threads=True)
