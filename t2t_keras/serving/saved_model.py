"""Writes a version of an export below its base directory, whole or not at all."""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from t2t_keras.serving.ids_module import IdsModule

# Called with the SavedModel's directory before it gets its name.
Step = Callable[[Path], None]


def save_version(
    module: IdsModule, base: str | os.PathLike[str], steps: tuple[Step, ...] = ()
) -> Path:
    """Writes a new version below `base`.

    It gets its name when all is done, so a server that watches `base` never sees one
    that is half written, or that a step has refused.

    Args:
        module: What to save.
        base: Directory of the versions, as TensorFlow Serving expects it.
        steps: What else belongs to a version: they add files to it, or raise.

    Returns:
        The version's directory: `base` with the next integer.

    Raises:
        UserError: If what was written cannot be used.
        OSError: If it cannot be written.
    """
    base = Path(base)
    is_new = not base.exists()
    base.mkdir(parents=True, exist_ok=True)
    versions = [int(path.name) for path in base.iterdir() if path.name.isdigit()]
    final = base / str(max(versions, default=0) + 1)
    temporary = base / f".{final.name}.{os.getpid()}.tmp"
    try:
        tf.saved_model.save(module, str(temporary), signatures=module.signatures())
        for step in steps:
            step(temporary)
        temporary.rename(final)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # something else is in it by now
                base.rmdir()
        if isinstance(error, tf.errors.OpError):
            raise OSError(f"{final} could not be written: {error.message}") from error
        raise
    return final
