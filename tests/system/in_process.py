"""Runs a program's command line in this process, which spares a start of TensorFlow.

What is run is the module's own last lines, as `python -m` would. A few tests start
real processes besides, for what cannot be seen from inside.
"""

import io
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

import tensorflow as tf
from absl import app, flags, logging
from absl.testing import flagsaver

from t2t_keras.files.signals import STOP_SIGNALS


@dataclass(frozen=True)
class Finished:
    """What is left of a program that has ended."""

    status: int
    output: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.output.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        """The lines of standard output; each must end in LF."""
        *lines, rest = self.stdout.split("\n")
        assert rest == "", f"the last line does not end: {rest!r}"
        return lines


def run_program(name: str, *arguments: object, stdin: bytes = b"") -> Finished:
    """Returns how `python -m t2t_keras.<name> <arguments>` ended.

    Python code's standard error is caught; that of native code is not.
    """
    module = f"t2t_keras.{name}"

    def start() -> None:
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    return run_main(start, name, *arguments, stdin=stdin)


def run_main(
    start: Callable[[], None], name: str, *arguments: object, stdin: bytes = b""
) -> Finished:
    """Returns how a program ended that `start` defines the flags of, and runs."""
    output, errors = io.BytesIO(), io.StringIO()
    stdout = io.TextIOWrapper(output, encoding="utf-8", write_through=True)
    argv = [name, *map(str, arguments)]
    with (
        _own_flags(),
        _own_logging(),
        _own_signal_handlers(),
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        redirect_stdout(stdout),
        redirect_stderr(errors),
    ):
        status = _status_of(start)
    stdout.flush()
    return Finished(status, output.getvalue(), errors.getvalue())


def _status_of(start: Callable[[], None]) -> int:
    try:
        start()
    except SystemExit as stop:
        return int(stop.code or 0)
    raise AssertionError("the program returned instead of exiting")


@contextmanager
def _own_flags() -> Iterator[None]:
    """Takes the flags that a program defines away again: others define them too."""
    app.define_help_flags()  # once a process, so they must stay
    saved = flagsaver.save_flag_values(flags.FLAGS)
    try:
        yield
    finally:
        flagsaver.restore_flag_values(saved, flags.FLAGS)


@contextmanager
def _own_logging() -> Iterator[None]:
    """Puts back how loud absl and TensorFlow are, which programs turn down."""
    verbosity, level = logging.get_verbosity(), tf.get_logger().level
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        tf.get_logger().setLevel(level)


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Puts back the handlers, which programs replace until their process ends."""
    handlers = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
