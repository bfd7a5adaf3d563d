"""Results as JSON lines: each is on disk as soon as it is known.

A run may be cut at any moment. What is known of a program comes in parts, a line each:
compiling, timing, profile. `read` joins them.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS_FILE = "results.jsonl"
# Name of this project in "by".
OURS = "t2t_keras"
# First part of "by" where only the attention of a program is computed.
ATTENTION = "attention of one layer"


class Results:
    """File of JSON lines, appended to.

    Args:
        path: The file; created with its folder if it does not exist.
        **common: Figures that every line starts with.
    """

    def __init__(self, path: Path, **common: Any):
        self.path = path
        self._common = common
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, **figures: Any) -> None:
        """Appends a line, which survives whatever happens next.

        Raises:
            SystemExit: If it cannot be written.
        """
        line = json.dumps({**self._common, **figures}) + "\n"
        try:
            self._append(line)
        except OSError as error:
            raise SystemExit(
                f"A line must be added to {self.path}. Received: {error.strerror}. "
                "Make room, or give another --out."
            ) from error

    def _append(self, line: str) -> None:
        with self.path.open("a+b") as file:
            file.seek(max(0, file.tell() - 1))
            # A write that was cut must not cost this line, too.
            start = "" if file.read(1) in (b"", b"\n") else "\n"
            file.write(f"{start}{line}".encode())
            file.flush()
            os.fsync(file.fileno())


def read(paths: Iterable[Path]) -> dict[tuple[str, str], dict[str, Any]]:
    """Returns the figures by program and implementation, the lines of each joined.

    Later lines overwrite equal names of earlier ones. A line that was cut is left out.

    Args:
        paths: Files of JSON lines with "program" and "by". They need not exist.
    """
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths:
        if not path.is_file():
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                figures = json.loads(line)
            except json.JSONDecodeError:
                continue
            key = figures["program"], figures["by"]
            joined.setdefault(key, {}).update(figures)
    return joined
