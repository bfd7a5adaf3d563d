"""Programs run in this process, without starting TensorFlow again.

The module runs as `__main__`, as with `python -m`. A few tests also start real
processes, to check what is not visible from inside.
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
class ProgramResult:
    """Exit status and output of a program."""

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


def run_program(name: str, *arguments: object, stdin: bytes = b"") -> ProgramResult:
    """Returns the result of `python -m t2t_keras.<name> <arguments>`.

    Standard error of Python code is captured, that of native code is not.
    """
    module = f"t2t_keras.{name}"

    def start() -> None:
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    return run_main(start, name, *arguments, stdin=stdin)


def run_main(
    start: Callable[[], None], name: str, *arguments: object, stdin: bytes = b""
) -> ProgramResult:
    """Returns the result of a program; `start` defines its flags and runs it."""
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
        status = _exit_status(start)
    stdout.flush()
    return ProgramResult(status, output.getvalue(), errors.getvalue())


def _exit_status(start: Callable[[], None]) -> int:
    try:
        start()
    except SystemExit as stop:
        return int(stop.code or 0)
    raise AssertionError("the program returned instead of exiting")


@contextmanager
def _own_flags() -> Iterator[None]:
    """Removes a program's flags at the end: other programs define the same ones."""
    app.define_help_flags()  # absl defines these once per process, so they must stay
    saved = flagsaver.save_flag_values(flags.FLAGS)
    try:
        yield
    finally:
        flagsaver.restore_flag_values(saved, flags.FLAGS)


@contextmanager
def _own_logging() -> Iterator[None]:
    """Restores the log levels of absl and TensorFlow, which programs change."""
    verbosity, level = logging.get_verbosity(), tf.get_logger().level
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        tf.get_logger().setLevel(level)


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Restores the signal handlers, which programs replace."""
    handlers = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
