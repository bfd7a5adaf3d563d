"""Training progress: log lines with an ETA, TensorBoard, and `metrics.jsonl`."""

import errno
import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.files.atomic import name_in_errors, write_file

logger = logging.getLogger(__name__)

OnRecord = Callable[[int, Mapping[str, float]], object]


class MetricsFile:
    """File of lines `{"step": 100, "time": "…", "loss": 4.1, …}`, one for each step.

    Args:
        path: The file, created with the first line.
    """

    def __init__(self, path: Path):
        self._path = path

    def cut_after(self, step: int) -> None:
        """Removes all lines of later steps, and incomplete lines.

        A run that resumes from a checkpoint repeats the steps after it.

        Raises:
            OSError: If the file cannot be written; it is then unchanged.
        """
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return
        valid = [line for line in lines if _is_whole(line) and _step(line) <= step]
        if len(valid) < len(lines):
            write_file(self._path, b"".join(valid))

    def read(self) -> list[dict[str, Any]]:
        """Returns the lines, without incomplete ones; none if there is no file."""
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if _is_whole(line)]

    def complete(self, values: Mapping[str, Any]) -> None:
        """Adds values to the last line if it has their step; or else as a line.

        Raises:
            OSError: If the file cannot be written; it is then unchanged.
        """
        lines = self.read()
        if not lines or lines[-1]["step"] != values["step"]:
            return self.add(values)
        lines[-1] |= values
        text = "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines)
        write_file(self._path, text.encode())

    def add(self, values: Mapping[str, Any]) -> None:
        """Adds a line.

        Raises:
            OSError: For example if the disk is full; no part of the line is written.
        """
        line = f"{json.dumps(values, allow_nan=False)}\n".encode()
        with (
            name_in_errors(self._path),
            open(self._path, "ab", buffering=0) as file,
        ):
            before = file.tell()
            try:
                if file.write(line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(before)
                raise


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line)["step"], int)
    except (ValueError, KeyError, TypeError):
        return False


def _step(line: bytes) -> int:
    return json.loads(line)["step"]


class Progress:
    """Writes progress lines, TensorBoard's curves and texts, and `metrics.jsonl`.

    Lines are logged one at a time and never rewritten, so that they read the same in
    a terminal and in a log file. A failed write is a warning, and training continues.

    Args:
        log_dir: Folder of TensorBoard's files, created with the first of them; None for
            none.
        metrics: File that values are also written to; None for none.
        on_record: Called with the step and the values of each record, by name.
    """

    def __init__(
        self,
        log_dir: str | None,
        metrics: MetricsFile | None = None,
        on_record: OnRecord = lambda step, values: None,
    ):
        self._log_dir = log_dir
        self._writer: Any = None
        self._on_record = on_record
        self._metrics = metrics
        self._metrics_failed = False
        self._logged_at = -math.inf
        self.start(0, 0)

    def start(self, step: int, last_step: int) -> None:
        """Starts to measure the pace; called when all steps are compiled."""
        self._last_step = last_step
        # Step and time: at the start, and at the origin of the pace.
        self._start = self._origin = step, time.monotonic()
        self._logged_at = -math.inf

    def log(self, text: str, level: int = logging.INFO) -> None:
        """Logs a line, and notes the time."""
        logger.log(level, text)
        self._logged_at = time.monotonic()

    def warn(self, text: str) -> None:
        """Logs a warning, and notes the time."""
        self.log(text, logging.WARNING)

    def silent_seconds(self) -> float:
        """Returns the seconds since the last line; infinite after `start`."""
        return time.monotonic() - self._logged_at

    def record(
        self, step: int, values: Mapping[str, float], *, again: bool = False
    ) -> None:
        """Writes values to TensorBoard and to `metrics.jsonl`, at a step.

        Args:
            step: Number of updates so far. Each step is recorded once, or `again`.
            again: Whether the step may have a record, which these values complete.
            values: Values by name. NaN and infinity are omitted: neither a curve nor
                JSON can hold them.
        """
        values = {name: v for name, v in values.items() if math.isfinite(v)}
        if not values:
            return

        def write() -> None:
            for tag, value in values.items():
                tf.summary.scalar(tag, value, step=step)

        self._to_tensorboard(write)
        self._to_metrics(step, values, again)
        self._on_record(step, values)

    def text(self, step: int, tag: str, markdown: str) -> None:
        """Shows a text in TensorBoard."""
        self._to_tensorboard(lambda: tf.summary.text(tag, markdown, step=step))

    def image(self, step: int, tag: str, pixels: np.ndarray) -> None:
        """Shows an image [height, width, channels] uint8 in TensorBoard."""
        self._to_tensorboard(lambda: tf.summary.image(tag, pixels[None], step=step))

    def _to_tensorboard(self, write: Callable[[], object]) -> None:
        if self._log_dir is None:
            return
        try:
            if self._writer is None:
                self._writer = tf.summary.create_file_writer(self._log_dir)
            with self._writer.as_default():
                write()
            self._writer.flush()
        except tf.errors.OpError as error:
            self.warn(
                f"{self._log_dir} can no longer be written: "
                f"{error.message}. Training continues without TensorBoard."
            )
            self._log_dir = None

    def _to_metrics(self, step: int, values: Mapping[str, float], again: bool) -> None:
        if self._metrics is None:
            return
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            write = self._metrics.complete if again else self._metrics.add
            write({"step": step, "time": now, **values})
            self._metrics_failed = False
        except OSError as error:
            if not self._metrics_failed:
                self.warn(f"metrics.jsonl lacks step {step:,}: {error}")
            self._metrics_failed = True

    def seconds_left(self, step: int) -> float:
        """Returns the seconds until the last step, at the pace so far.

        Args:
            step: Number of updates so far. The time before the first call, when a run
                is slower, counts in that call only.
        """
        now = time.monotonic()
        first_step, then = self._origin
        if self._origin is self._start:
            self._origin = step, now
        if step <= first_step:
            return math.nan
        return (now - then) / (step - first_step) * (self._last_step - step)


def as_duration(seconds: float) -> str:
    """Returns seconds as text for people.

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


def as_flops(flops: float) -> str:
    """Returns FLOPs, or FLOP/s, with three digits.

    >>> as_flops(153.4e9), as_flops(32.27e12), as_flops(1e18), as_flops(800.0)
    ('153 GFLOP', '32.3 TFLOP', '1000 PFLOP', '8e-07 GFLOP')
    """
    unit, size = next(
        (unit, size)
        for unit, size in (("P", 1e15), ("T", 1e12), ("G", 0.0))
        if flops >= size
    )
    # Rounded first: 1,000 with three digits would be written 1e+03.
    return f"{float(f'{flops / (size or 1e9):.3g}'):g} {unit}FLOP"
