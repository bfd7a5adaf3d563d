"""Variables in a file `model.bin` of CTranslate2.

Source: CTranslate2 4.8, python/ctranslate2/specs/model_spec.py.
"""

import struct
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import Arrays

_VERSIONS = range(2, 7)
_DTYPES = (
    np.float32,
    np.int8,
    np.int16,
    np.int32,
    np.float16,
    tf.bfloat16.as_numpy_dtype,
)


class _Variable(NamedTuple):
    """Place of an array in the file."""

    offset: int
    shape: tuple[int, ...]
    dtype: Any


class BinaryArrays(Arrays):
    """Variables of a file `model.bin`.

    Attributes:
        spec: Name of the model's kind.
        revision: Number of the kind's revision.

    Raises:
        UserError: If it cannot be read.
    """

    def __init__(self, path: Path):
        try:
            with path.open("rb") as file:
                self._read_index(file)
        except OSError as error:
            raise UserError(f"Cannot read {path}: {error.strerror}.") from error
        except (struct.error, ValueError, IndexError, KeyError) as error:
            raise UserError(
                f"{path} is damaged, cut short or no model of CTranslate2: {error}."
            ) from error
        super().__init__(path, [*self._variables, *self._aliases])

    def _read_index(self, file: BinaryIO) -> None:
        """Reads what precedes and follows the numbers of each variable."""
        self._variables: dict[str, _Variable] = {}
        self._aliases: dict[str, str] = {}
        size = file.seek(0, 2)
        file.seek(0)
        version = _number(file, "I")
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version}")
        self.spec = _text(file)
        self.revision = _number(file, "I")
        for _ in range(_number(file, "I")):
            name = _text(file)
            rank = _number(file, "B")
            shape = tuple(_number(file, "I") for _ in range(rank))
            if version >= 4:
                dtype = _DTYPES[_number(file, "B")]
                count = _number(file, "I") // np.dtype(dtype).itemsize
            else:
                dtype = {4: np.float32, 2: np.int16, 1: np.int8}[_number(file, "B")]
                count = _number(file, "I")
            if count != int(np.prod(shape, dtype=np.int64)):
                raise ValueError(f"{name} has {count} numbers for the shape {shape}")
            self._variables[name] = _Variable(file.tell(), shape, dtype)
            end = file.seek(count * np.dtype(dtype).itemsize, 1)
            if end > size:
                raise ValueError(f"it ends within {name}")
        if version >= 3:
            for _ in range(_number(file, "I")):
                alias = _text(file)
                self._aliases[alias] = _text(file)
                if self._aliases[alias] not in self._variables:
                    raise ValueError(f"{alias} is another name of none")

    def _load(self, name: str) -> np.ndarray:
        target = self._aliases.get(name, name)
        self._used.add(target)
        variable = self._variables[target]
        count = int(np.prod(variable.shape, dtype=np.int64))
        with self.path.open("rb") as file:
            file.seek(variable.offset)
            numbers = np.fromfile(file, variable.dtype, count)
        return numbers.reshape(variable.shape)

    def scalar(self, name: str, default: float) -> float:
        """Returns a variable that is one number, or the default if there is none."""
        return self.read(name).item() if name in self.names else default


def _number(file: BinaryIO, kind: str) -> int:
    return struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0]


def _text(file: BinaryIO) -> str:
    """Reads a string that ends in NUL, after its length."""
    content = file.read(_number(file, "H"))
    if not content.endswith(b"\0"):
        raise ValueError("a name does not end")
    return content[:-1].decode("utf-8")
