"""Numbered versions below a base directory, each written atomically."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.files.atomic import publish_folder, remove
from t2t_keras.files.locks import lock_folder
from t2t_keras.files.shared_folders import sweep
from t2t_keras.files.signals import undo_if_interrupted

# Name of a version that is being written: its number and the writer's process id.
_VERSIONS = "[0-9]*.[0-9]*"


def next_version(base: Path) -> Path:
    """Returns the directory of the next version below `base`, which need not exist."""
    versions = [int(path.name) for path in base.glob("*") if path.name.isdigit()]
    return base / str(max(versions, default=0) + 1)


@contextlib.contextmanager
def new_version(final: Path) -> Iterator[Path]:
    """Yields an empty directory that becomes `final`, which must not exist, at the end.

    A server that watches the parent directory never sees an incomplete version. After
    an error or a signal nothing is left, and the parent is removed if it is new. The
    next export deletes what a killed process left.

    Raises:
        FileExistsError: If another thread of this process is writing it.
        OSError: If it cannot be written.
    """
    base = final.parent
    is_new = not base.exists()

    def remove_base() -> None:
        if is_new:
            with contextlib.suppress(OSError):  # it may have other files by now
                base.rmdir()

    with undo_if_interrupted(remove_base):
        base.mkdir(parents=True, exist_ok=True)
        # The process id is part of the name: several processes may export at a time.
        with _make_locked(base / f".{final.name}.{os.getpid()}.tmp") as temporary:
            yield temporary
            publish_folder(temporary, final)


@contextlib.contextmanager
def _make_locked(temporary: Path) -> Iterator[Path]:
    """Creates a directory that is locked during the block and then removed."""
    with contextlib.ExitStack() as stack:
        # No other process sweeps before the new directory is locked.
        with lock_folder(temporary.parent, wait=True):
            sweep(temporary.parent, _VERSIONS)
            if temporary.exists():
                raise FileExistsError(
                    f"{temporary} exists: another export is writing it, or was "
                    "killed. If none is running, delete it."
                )
            stack.enter_context(undo_if_interrupted(lambda: remove(temporary)))
            temporary.mkdir()
            stack.enter_context(lock_folder(temporary))
        yield temporary
