"""Arrays of PyTorch's files, read without PyTorch, and without executing their code.

A file is a pickle that names tensors, and their numbers beside it. A pickle may call
any function; here it may call those that rebuild a tensor, and no other, as with
`torch.load(weights_only=True)`.

Source: torch/serialization.py of PyTorch 2, both formats: a zip archive, and the older
sequence of pickles of releases before 1.6.
"""

import collections
import io
import pickle
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.interop.arrays import Arrays

# Number at the beginning of files of releases before 1.6.
_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES = MappingProxyType(
    {
        "FloatStorage": np.float32,
        "HalfStorage": np.float16,
        "DoubleStorage": np.float64,
        "LongStorage": np.int64,
        "IntStorage": np.int32,
        "ByteStorage": np.uint8,
        "BoolStorage": np.bool_,
        "BFloat16Storage": tf.bfloat16.as_numpy_dtype,
    }
)


class _Storage(NamedTuple):
    """Numbers that tensors share: their key in the file, and their dtype."""

    key: str
    dtype: Any


class _Tensor(NamedTuple):
    """A tensor of a file: a part of a storage."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class TorchArrays(Arrays):
    """Arrays of a file of `torch.save`, such as pytorch_model.bin.

    Raises:
        UserError: If it cannot be read, calls other functions, or is not a mapping of
            names to tensors.
    """

    def __init__(self, path: Path):
        try:
            if zipfile.is_zipfile(path):
                content, self._read = _open_archive(path)
            else:
                content, self._read = _open_old(path)
        except OSError as error:
            raise UserError(f"Cannot read {path}: {error.strerror}.") from error
        except (*_DAMAGE, _Forbidden) as error:
            raise UserError(
                f"{path} cannot be read as the weights of a PyTorch model: {error}. "
                "Download it again, or use model.safetensors."
            ) from error
        tensors = {
            name: tensor
            for name, tensor in (content if isinstance(content, dict) else {}).items()
            if isinstance(tensor, _Tensor)
        }
        if not tensors:
            raise UserError(f"{path} has no tensors by name. Give a model's weights.")
        self._tensors: Mapping[str, _Tensor] = tensors
        super().__init__(path, list(tensors))

    def _load(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        dtype = np.dtype(tensor.storage.dtype)
        try:
            numbers = np.frombuffer(self._read(tensor.storage.key), dtype)
            strides = [dtype.itemsize * step for step in tensor.stride]
            ends = zip(tensor.size, tensor.stride, strict=True)
            last = tensor.offset + sum((n - 1) * step for n, step in ends)
            if min((*tensor.size, tensor.offset, *tensor.stride, 0)) < 0 or not (
                last < len(numbers)
            ):
                raise ValueError(f"{name} is outside its numbers")
            view = np.lib.stride_tricks.as_strided(
                numbers[tensor.offset :], tensor.size, strides
            )
        except _DAMAGE as error:
            raise UserError(
                f"{self.path} is damaged or cut short: {error}. Download it again."
            ) from error
        return view


_DAMAGE = (
    zipfile.BadZipFile,
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    zlib.error,
    NotImplementedError,
)


class _Forbidden(Exception):
    """The pickle calls a function that rebuilds no tensor."""


class _Unpickler(pickle.Unpickler):
    """Unpickler of tensors alone."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild_tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        raise _Forbidden(f"it calls {module}.{name}, which rebuilds no tensor")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, *_ = pid
        if kind != "storage":
            raise _Forbidden(f"it refers to a {kind}")
        return _Storage(str(key), dtype)


def _rebuild_tensor(
    storage: _Storage, offset: int, size: Any, stride: Any, *_: Any
) -> _Tensor:
    return _Tensor(storage, offset, tuple(size), tuple(stride))


def _open_archive(path: Path) -> tuple[Any, Callable[[str], bytes]]:
    """Returns the content of a zip archive, and a function that reads a storage."""
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError("it has no data.pkl")
        content = _Unpickler(io.BytesIO(archive.read(pickles[0]))).load()
    folder = pickles[0].removesuffix("data.pkl") + "data/"

    def read(key: str) -> bytes:
        with zipfile.ZipFile(path) as archive:
            return archive.read(folder + key)

    return content, read


def _open_old(path: Path) -> tuple[Any, Callable[[str], bytes]]:
    """Returns the content of a file of releases before 1.6, and a storage's reader."""
    places: dict[str, tuple[int, int]] = {}
    with path.open("rb") as file:
        if _Unpickler(file).load() != _MAGIC:
            raise ValueError("it does not begin like one")
        for _ in ("protocol", "system"):
            _Unpickler(file).load()
        content = _Unpickler(file).load()
        tensors = content.values() if isinstance(content, dict) else ()
        dtypes = {
            tensor.storage.key: np.dtype(tensor.storage.dtype)
            for tensor in tensors
            if isinstance(tensor, _Tensor)
        }
        for key in _Unpickler(file).load():
            count = int.from_bytes(file.read(8), "little")
            size = count * dtypes[key].itemsize
            places[key] = file.tell(), size
            file.seek(size, io.SEEK_CUR)

    def read(key: str) -> bytes:
        start, size = places[key]
        with path.open("rb") as file:
            file.seek(start)
            numbers = file.read(size)
        if len(numbers) < size:
            raise ValueError("the file ends within its numbers")
        return numbers

    return content, read
