"""Quiet start-up of TensorFlow, and quiet use."""

import contextlib
import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO

from t2t_keras.files.signals import undo_if_interrupted

# Of Abseil, of TensorFlow before it is set up, and of SentencePiece.
_NATIVE_LOG_LINE = re.compile(
    rb"[IWE]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ \S+:\d+\] "
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] "
    rb"|\S+\.cc\(\d+\) LOG\(\w+\) "
    rb"|WARNING: All log messages before absl::InitializeLog\(\) "
    rb"|To enable the following instructions: "
    rb"|Skipping registering GPU devices"
)
# Standard error is of the whole process, so the first block redirects it for all.
_redirecting = threading.Lock()


@contextlib.contextmanager
def quiet_start_up() -> Iterator[None]:
    """Suppresses what native code logs to standard error during an import.

    TensorFlow 2.21 prints a dozen lines on import that no environment variable
    suppresses, because its logger is not set up yet. They are printed if the import
    fails, and always with TF_CPP_MIN_LOG_LEVEL=0. Whatever else is printed meanwhile,
    perhaps by other threads, is printed at the end of the block.
    """
    is_verbose = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    if is_verbose or not _redirecting.acquire(blocking=False):
        yield
        return
    try:
        yield from _hold_standard_error()
    finally:
        _redirecting.release()


def _hold_standard_error() -> Iterator[None]:
    # A program without a console may have none, or a closed one.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()
    try:
        held: IO[bytes] = tempfile.TemporaryFile()
        real = os.dup(2)
    except OSError:  # also without a folder for temporary files
        yield
        return
    with held:
        hidden = None
        try:
            with undo_if_interrupted(lambda: os.dup2(real, 2)):
                os.dup2(held.fileno(), 2)
                yield
            hidden = _NATIVE_LOG_LINE
        finally:
            os.close(real)
            held.seek(0)
            lines = [line for line in held if not (hidden and hidden.match(line))]
            if lines:
                os.write(2, b"".join(lines))


@contextlib.contextmanager
def tensorflow_warnings_off() -> Iterator[None]:
    """Silences TensorFlow's warnings in a block, or in a decorated function.

    They are advice for whoever writes the graphs, such as how often they are traced.
    """
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(max(level, logging.ERROR))
    try:
        yield
    finally:
        logger.setLevel(level)
