"""Signal handling: SIGINT (Ctrl-C), SIGTERM and SIGHUP end a program cleanly.

A signal that the caller ignores, as `nohup` and shells in the background do, stays
ignored.

No handler here raises an exception. It would be raised inside the running code, and
TensorFlow and Keras catch it while they trace: the program would end with their
traceback, or not end at all. A handler either ends the process itself, after removing
half-written files, or only records the signal for a loop that acts on it between two
steps.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

from t2t_keras.errors import UserError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818 - not an error
    """Stop at a safe point after a signal.

    Attributes:
        signal_number: Number of the signal.
    """

    def __init__(self, signal_number: int):
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number


class DeferredSignals:
    """Signals that arrived in a `defer_signals` block.

    Attributes:
        received: Numbers of the signals, in order of arrival.
    """

    def __init__(self) -> None:
        self.received: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.received)

    def check(self) -> None:
        """Marks a safe point.

        Raises:
            Interrupted: If a signal has arrived.
        """
        if self.received:
            raise Interrupted(self.received[0])


class _Undo:
    """Callbacks to run before a signal ends the process.

    Attributes:
        callbacks: The callbacks, newest last.
    """

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], object]] = []


# Signal handlers are global to the process, and so is this.
_undo = _Undo()


def _not_ignored() -> list[signal.Signals]:
    return [each for each in STOP_SIGNALS if signal.getsignal(each) != signal.SIG_IGN]


def end_program_on_signal() -> None:
    """Makes the first of `STOP_SIGNALS` end the process with status 128 + its number.

    The handler runs the callbacks of `undo_if_interrupted` and prints one line with the
    name of the signal to standard error. Nothing else of the program runs.
    """
    taken = _not_ignored()

    def end(number: int, _: object) -> NoReturn:
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        for undo in reversed(_undo.callbacks):
            with contextlib.suppress(Exception):
                undo()
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        # flush raises if the signal arrived while a line was being written.
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        # Erases a progress bar that is on the same line.
        clear = "\r\x1b[K" if os.isatty(2) else ""
        with contextlib.suppress(OSError):
            os.write(2, f"{clear}{Interrupted(number)}\n".encode())
        os._exit(128 + number)

    for each in taken:
        signal.signal(each, end)


@contextlib.contextmanager
def undo_if_interrupted(undo: Callable[[], object]) -> Iterator[None]:
    """Calls `undo` at the end of the block, also after errors and signals.

    Args:
        undo: Removes half-written files. It is also called after success, when there
            are none.
    """
    _undo.callbacks.append(undo)
    try:
        yield
    finally:
        try:
            undo()
        finally:
            _undo.callbacks.remove(undo)


@contextlib.contextmanager
def preserve_handlers() -> Iterator[None]:
    """Restores the handlers of `STOP_SIGNALS` after a block that may replace them.

    Native code may replace them without Python's knowledge, as TensorFlow does when it
    sets up a cluster.
    """
    before = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    try:
        yield
    finally:
        if _may_set_handlers():
            for number, previous in before.items():
                # None means a handler of native code, which Python cannot restore.
                signal.signal(number, previous or signal.SIG_DFL)


@contextlib.contextmanager
def handle_signals(handler: Callable[[int], object]) -> Iterator[None]:
    """Handles `STOP_SIGNALS` that are not ignored with `handler` during the block.

    Args:
        handler: Called with the signal's number; must not raise.
    """
    with preserve_handlers():
        if _may_set_handlers():
            for each in _not_ignored():
                signal.signal(each, lambda number, _: handler(number))
        yield


def _may_set_handlers() -> bool:
    """Returns whether Python lets this thread set handlers."""
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def block_signals() -> Iterator[None]:
    """Blocks `STOP_SIGNALS` until the block ends.

    Processes that are started in the block never receive them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def defer_signals() -> Iterator[DeferredSignals]:
    """Records `STOP_SIGNALS` for a block that acts on them at safe points.

    A signal that the block has not acted on takes effect when the block ends, also by
    an error, unless it is one that is reported to the user. A second SIGINT takes
    effect at once, through the previous handler.
    """
    signals = DeferredSignals()
    previous = {each: signal.getsignal(each) for each in STOP_SIGNALS}

    def record(number: int) -> None:
        if signals and number == signal.SIGINT:
            signal.signal(number, previous[signal.SIGINT])
            signal.raise_signal(number)
        signals.received.append(number)

    try:
        with handle_signals(record):
            yield signals
    except Exception as error:
        if signals and not isinstance(error, Interrupted | UserError):
            signal.raise_signal(signals.received[0])
        raise
    if signals:
        signal.raise_signal(signals.received[0])


class SignalWaiter:
    """Wait for one of `STOP_SIGNALS` in the main thread of a server.

    Once it is created, signals no longer end the process.
    """

    def __init__(self) -> None:
        # The system may deliver a signal to any thread, which does not wake a thread
        # that waits for a lock. Every thread's handler writes to this pipe.
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        self._taken = _not_ignored()
        for each in self._taken:
            signal.signal(each, lambda *_: None)

    def wait(self) -> int:
        """Returns the first signal's number.

        A second SIGINT or SIGTERM ends the process at once. Another SIGHUP does not:
        when a terminal is closed, it sends one, and so does the shell in it.
        """
        number = os.read(self._reader, 1)[0]
        for each in self._taken:
            if each != signal.SIGHUP:
                signal.signal(each, signal.SIG_DFL)
        return number
