"""The log of the package: lines that programs print, and that Python users configure.

Every module logs to `logging.getLogger(__name__)`, below the logger "t2t_keras":
progress at the level INFO, and what may be a mistake at WARNING. Without a handler
nothing is printed.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

_PACKAGE = "t2t_keras"
_ABOVE_ALL = logging.CRITICAL + 1


class LineHandler(logging.Handler):
    """Handler that passes on each record as a line, with its level from WARNING on.

    The traceback of an exception follows.

    Args:
        write: Called with each line.
        stamped: Whether a line begins with the time, in UTC, and its level, and no
            record has more than one line.
    """

    def __init__(self, write: Callable[[str], object], *, stamped: bool = False):
        super().__init__(logging.INFO)
        self._write = write
        self._stamped = stamped

    def emit(self, record: logging.LogRecord) -> None:
        """Passes on a record."""
        line = self.format(record)
        if self._stamped:
            seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            stamp = f"{seconds}.{record.msecs:03.0f}Z {record.levelname}"
            line = f"{stamp} {line}".replace("\r", "\\r").replace("\n", "\\n")
        elif record.levelno >= logging.WARNING:
            line = f"{record.levelname.lower()}: {line}"
        self._write(line)


@contextlib.contextmanager
def log_to(
    write: Callable[[str], object], *, alone: bool = False, stamped: bool = False
) -> Iterator[None]:
    """Passes on what the package logs in a `with` block.

    Args:
        write: Called with each line.
        alone: Whether handlers of the root logger get nothing meanwhile.
        stamped: See `LineHandler`.
    """
    handler = LineHandler(write, stamped=stamped)
    logger = logging.getLogger(_PACKAGE)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    # An inherited level may change in the block, as absl's verbosity does.
    if level == logging.NOTSET or level > logging.INFO:
        logger.setLevel(logging.INFO)
    logger.propagate = propagates and not alone
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


@contextlib.contextmanager
def log_nothing() -> Iterator[None]:
    """Drops what the package logs in a `with` block."""
    logger = logging.getLogger(_PACKAGE)
    level = logger.level
    logger.setLevel(_ABOVE_ALL)
    try:
        yield
    finally:
        logger.setLevel(level)
