"""SavedModel versions below a base directory, each written atomically."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf

from t2t_keras.files.atomic import publish_folder, remove
from t2t_keras.files.locks import lock_folder
from t2t_keras.files.signals import undo_if_interrupted
from t2t_keras.serving.export.ids_module import IdsModule

# A version that is being written: its number, and the process that writes it.
_TEMPORARY = re.compile(r"\.[0-9]+\.[0-9]+\.tmp")


# Called with the SavedModel's directory before it gets its name.
Finisher = Callable[[Path], None]


def next_version(base: Path) -> Path:
    """Returns the directory of the next version below `base`, which need not exist."""
    versions = [int(path.name) for path in base.glob("*") if path.name.isdigit()]
    return base / str(max(versions, default=0) + 1)


@contextlib.contextmanager
def new_version(final: Path) -> Iterator[Path]:
    """Yields an empty directory that gets the name `final` at the end of the block.

    A server that watches the directory above never sees an incomplete one. After an
    error or a signal nothing is left, not even the directory above if it is new. What a
    killed process left, the next one deletes.

    Args:
        final: Must not exist.

    Raises:
        FileExistsError: If it is being written, as another thread may do.
        OSError: If it cannot be written.
    """
    base = final.parent
    is_new = not base.exists()

    def remove_base() -> None:
        if is_new:
            with contextlib.suppress(OSError):  # something is in it by now
                base.rmdir()

    with undo_if_interrupted(remove_base):
        base.mkdir(parents=True, exist_ok=True)
        # The process is part of the name: several may export at a time.
        with _make_locked(base / f".{final.name}.{os.getpid()}.tmp") as temporary:
            yield temporary
            publish_folder(temporary, final)


@contextlib.contextmanager
def _make_locked(temporary: Path) -> Iterator[Path]:
    """Makes a directory that is locked in the block, and removed at the end."""
    with contextlib.ExitStack() as held:
        # No other process sweeps before ours is locked.
        with lock_folder(temporary.parent, wait=True):
            _sweep(temporary.parent)
            if temporary.exists():
                raise FileExistsError(
                    f"{temporary} is there: another export is writing it, or was "
                    "killed. If none is running, delete it."
                )
            held.enter_context(undo_if_interrupted(lambda: remove(temporary)))
            temporary.mkdir()
            held.enter_context(lock_folder(temporary))
        yield temporary


def _sweep(base: Path) -> None:
    """Deletes what killed processes left half written: directories without a lock."""
    for left in base.iterdir():
        if not _TEMPORARY.fullmatch(left.name):
            continue
        with contextlib.suppress(FileNotFoundError), lock_folder(left) as is_locked:
            if is_locked:
                remove(left)


def save_version(
    module: IdsModule,
    base: str | os.PathLike[str],
    finishers: tuple[Finisher, ...] = (),
) -> Path:
    """Writes a new version below `base`.

    It gets its name when all is done, so a server that watches `base` never sees one
    that is half written, or that a step has refused.

    Args:
        module: What to save.
        base: Directory of the versions, as TensorFlow Serving expects it.
        finishers: Each adds a file to the version, or raises if it is not usable.

    Returns:
        The version's directory: `base` with the next integer.

    Raises:
        UserError: If what was written cannot be used.
        OSError: If it cannot be written.
    """
    final = next_version(Path(base))
    try:
        with new_version(final) as temporary:
            tf.saved_model.save(module, str(temporary), signatures=module.signatures())
            for finish in finishers:
                finish(temporary)
    except tf.errors.OpError as error:
        raise OSError(f"{final} could not be written: {error.message}") from error
    return final
