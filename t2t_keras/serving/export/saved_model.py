"""SavedModel versions below a base directory, each written whole or not at all."""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow as tf

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
def whole_or_not_at_all(final: Path) -> Iterator[Path]:
    """Yields an empty directory, which becomes the directory `final` when all is done.

    A server that watches the folder above never sees one that is half written. What
    fails, or is interrupted, leaves nothing: not the folder it is in, if that is new.
    What a process leaves that is killed, the next one deletes.

    Args:
        final: What must not exist yet.
    """
    base = final.parent
    is_new = not base.exists()

    def remove_base() -> None:
        if is_new:
            with contextlib.suppress(OSError):  # something is in it by now
                base.rmdir()

    with undo_if_interrupted(remove_base):
        base.mkdir(parents=True, exist_ok=True)
        with _begun(base / f".{final.name}.{os.getpid()}.tmp") as temporary:
            yield temporary
            temporary.rename(final)


@contextlib.contextmanager
def _begun(temporary: Path) -> Iterator[Path]:
    """Makes a directory that is locked while it is written, and removed afterwards."""

    def remove() -> None:
        shutil.rmtree(temporary, ignore_errors=True)

    with contextlib.ExitStack() as held:
        # Nobody sweeps between the making of ours and its lock.
        with lock_folder(temporary.parent, wait=True):
            _sweep(temporary.parent)
            if temporary.exists():
                raise FileExistsError(
                    f"{temporary} is there: another export is writing it, or was "
                    "killed. If none is running, delete it."
                )
            held.enter_context(undo_if_interrupted(remove))
            temporary.mkdir()
            held.enter_context(lock_folder(temporary))
        yield temporary


def _sweep(base: Path) -> None:
    """Deletes what killed processes left half written; nobody has that locked."""
    for left in base.iterdir():
        if not _TEMPORARY.fullmatch(left.name):
            continue
        with contextlib.suppress(FileNotFoundError), lock_folder(left) as is_ours:
            if is_ours:
                shutil.rmtree(left, ignore_errors=True)


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
        with whole_or_not_at_all(final) as temporary:
            tf.saved_model.save(module, str(temporary), signatures=module.signatures())
            for finish in finishers:
                finish(temporary)
    except tf.errors.OpError as error:
        raise OSError(f"{final} could not be written: {error.message}") from error
    return final
