"""What a person sees while a model trains: a line now and then, and TensorBoard."""

import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

import tensorflow as tf


class Progress:
    """Writes progress lines and TensorBoard scalars.

    Lines go to standard error, one at a time and never rewritten, so that they
    read the same in a terminal and in a log file.

    Args:
        log_dir: Where TensorBoard's files go, made when there is something to
            write; None for none.
        train_steps: Updates in all, for the time that is left.
        stream: Where lines go; standard error if None.
    """

    def __init__(
        self, log_dir: str | None, train_steps: int, stream: TextIO | None = None
    ):
        self._log_dir = log_dir
        self._writer: Any = None
        self._train_steps = train_steps
        self._stream = stream
        self._start_seconds = time.monotonic()
        self._first_step: int | None = None

    def say(self, text: str) -> None:
        """Writes a line."""
        print(text, file=self._stream or sys.stderr, flush=True)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes values to TensorBoard, at a step."""
        if self._log_dir is None:
            return
        try:
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(self._log_dir)
            with self._writer.as_default():
                for tag, value in values.items():
                    tf.summary.scalar(tag, value, step=step)
            self._writer.flush()
        except tf.errors.OpError as error:
            self.say(
                f"warning: {self._log_dir} cannot be written any more: "
                f"{error.message}. Training goes on without TensorBoard."
            )
            self._log_dir = None

    def seconds_left(self, step: int) -> float:
        """Returns the seconds until the last step, at the pace since the first.

        Args:
            step: Updates made. The first call sets where the pace is taken from,
                so that compiling before it does not count.
        """
        now = time.monotonic()
        if self._first_step is None:
            self._first_step, self._start_seconds = step, now
        done = step - self._first_step
        if not done:
            return float("nan")
        pace = (now - self._start_seconds) / done
        return pace * (self._train_steps - step)


def as_duration(seconds: float) -> str:
    """Returns seconds as a person writes them.

    >>> as_duration(7.4), as_duration(605), as_duration(7_500), as_duration(200_000)
    ('7s', '10m05s', '2h05m', '2d07h')
    """
    if seconds != seconds:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"
