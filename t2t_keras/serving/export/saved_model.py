"""Writes a version of an export below its base directory, whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from t2t_keras.serving.export.ids_module import IdsModule
from t2t_keras.serving.export.version_directory import next_version, whole_or_not_at_all

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
    final = next_version(Path(base))
    try:
        with whole_or_not_at_all(final) as temporary:
            tf.saved_model.save(module, str(temporary), signatures=module.signatures())
            for step in steps:
                step(temporary)
    except tf.errors.OpError as error:
        raise OSError(f"{final} could not be written: {error.message}") from error
    return final
