"""Variables of TensorFlow's checkpoints, of which only a model's are used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.paths import check_readable_by_tensorflow
from t2t_keras.interop.arrays import Arrays


class CheckpointArrays(Arrays):
    """Variables of a checkpoint, of TensorFlow 1 or of objects.

    Args:
        path: The checkpoint's files without their endings.
        is_weight: Whether a name is of a variable of the model; others belong to its
            training.

    Raises:
        UserError: If it cannot be read.
    """

    def __init__(self, path: Path, is_weight: Callable[[str], bool]):
        check_readable_by_tensorflow(path, "--input")
        self._reader: Any = _read(path, lambda: tf.train.load_checkpoint(str(path)))
        self._shapes = self._reader.get_variable_to_shape_map()
        super().__init__(path, [name for name in self._shapes if is_weight(name)])

    def _load(self, name: str) -> np.ndarray:
        return _read(self.path, lambda: self._reader.get_tensor(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a variable, without reading it."""
        if name not in self.names:
            return self.read(name).shape  # its error
        return tuple(self._shapes[name])


def _read(path: Path, read: Any) -> Any:
    try:
        return read()
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        message = getattr(error, "message", str(error))
        raise UserError(f"The checkpoint {path} cannot be read: {message}") from error


def find_checkpoint(path: Path) -> Path:
    """Returns the newest checkpoint of a folder, without the endings of its files.

    Raises:
        UserError: If there is none, or several and no file `checkpoint` that names one.
    """
    newest = tf.train.latest_checkpoint(str(path))
    if newest is not None and Path(f"{newest}.index").is_file():
        return Path(newest)
    found = sorted(file.with_suffix("") for file in path.glob("*.index"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise UserError(
            f"{path} must have one checkpoint, or a file `checkpoint` that names one. "
            f"Found: {names}"
        )
    return found[0]


def checkpoint_files(checkpoint: Path) -> list[Path]:
    """Returns the files of a checkpoint, given without their endings."""
    return sorted(checkpoint.parent.glob(f"{checkpoint.name}.*"))
