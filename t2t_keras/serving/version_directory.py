"""Where the versions of an export are, and how one comes to be there."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def next_version(base: Path) -> Path:
    """Returns the directory of the next version below `base`, which need not exist."""
    versions = [int(path.name) for path in base.glob("*") if path.name.isdigit()]
    return base / str(max(versions, default=0) + 1)


@contextlib.contextmanager
def whole_or_not_at_all(final: Path) -> Iterator[Path]:
    """Yields where to write what becomes the directory `final` when all is done.

    A server that watches the folder above never sees one that is half written. What
    fails, or is interrupted, leaves nothing: no folder above it either, if that is new.

    Args:
        final: What must not exist yet.
    """
    base = final.parent
    is_new = not base.exists()
    base.mkdir(parents=True, exist_ok=True)
    temporary = base / f".{final.name}.{os.getpid()}.tmp"
    try:
        yield temporary
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # something else is in it by now
                base.rmdir()
        raise
