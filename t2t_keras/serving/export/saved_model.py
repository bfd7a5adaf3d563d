"""SavedModel versions below a base directory."""

import os
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from t2t_keras.files.atomic import write_error
from t2t_keras.files.versions import new_version, next_version
from t2t_keras.serving.export.ids_module import IdsModule

# Called with the SavedModel's directory before it gets its name.
Finisher = Callable[[Path], None]


def save_version(
    module: IdsModule,
    base: str | os.PathLike[str],
    finishers: tuple[Finisher, ...] = (),
) -> Path:
    """Writes a new version, the next integer below `base`; returns its directory.

    The version gets its name last, so a server that watches `base` never sees one that
    is incomplete or that failed validation.

    Args:
        module: The module to save.
        base: Directory of the versions, as TensorFlow Serving expects it.
        finishers: Steps that add a file to the version, or raise if it is not usable.

    Raises:
        UserError: If the version fails validation.
        OSError: If the version cannot be written.
    """
    final = next_version(Path(base))
    try:
        with new_version(final) as temporary:
            tf.saved_model.save(module, str(temporary), signatures=module.signatures())
            for finish in finishers:
                finish(temporary)
    except tf.errors.OpError as error:
        raise write_error(final, error.message) from error
    return final
