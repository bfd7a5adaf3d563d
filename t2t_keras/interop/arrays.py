"""Arrays in files, read one at a time, with a record of those that were used."""

import contextlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import ReadArray, read_settings

_PART_BYTES = 2**23
# Names of arrays that a message has.
_SHOWN = 5


class Arrays:
    """Named arrays of a file.

    A model of an architecture that its reader does not know has arrays that are never
    asked for: `check_all_used` finds them.

    Attributes:
        path: The file.
        names: Names of the arrays.
    """

    def __init__(self, path: Path, names: Sequence[str]):
        self.path = path
        self.names = frozenset(names)
        self._used: set[str] = set()

    def read(self, name: str) -> np.ndarray:
        """Returns an array as it is stored.

        Raises:
            UserError: If there is none, or it is damaged.
        """
        if name not in self.names:
            raise UserError(
                f"{self.path} has no array {name}. It is cut short, or of another "
                "architecture than its settings say."
            )
        self._used.add(name)
        return self._load(name)

    def _load(self, name: str) -> np.ndarray:
        raise NotImplementedError

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of an array."""
        return self.read(name).shape

    def reader(self, name: str) -> ReadArray:
        """Returns a function that reads an array as float32."""
        self._used.add(name)
        return lambda: as_float32(self.read(name), f"{name} in {self.path}")

    def vector(self, name: str) -> ReadArray:
        """Returns a function that reads an array without axes of size 1."""
        read = self.reader(name)
        return lambda: read().reshape(-1)

    def check_all_used(self) -> None:
        """Raises `UserError` if arrays were not asked for."""
        unused = sorted(self.names - self._used)
        if unused:
            others = len(unused) - _SHOWN
            more = f" and {others} more" if others > 0 else ""
            raise UserError(
                f"{self.path} has arrays that this project has no place for: "
                f"{', '.join(unused[:_SHOWN])}{more}. Its architecture is another one."
            )


class NpzArrays(Arrays):
    """Arrays of a file `.npz`.

    Raises:
        UserError: If it cannot be read.
    """

    def __init__(self, path: Path):
        with _explain_damage(path):
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
            self._archive: Any = np.load(path, allow_pickle=False)
        super().__init__(path, [name.removesuffix(".npy") for name in names])

    def _load(self, name: str) -> np.ndarray:
        with _explain_damage(self.path):
            return self._archive[name]


class SafetensorsArrays(Arrays):
    """Arrays of a file `.safetensors`.

    Raises:
        UserError: If it cannot be read.
    """

    def __init__(self, path: Path):
        with self._open(path) as file:
            names = list(file.keys())
        super().__init__(path, names)

    def _load(self, name: str) -> np.ndarray:
        # The file is mapped into memory, and its pages stay there until it is closed.
        with self._open(self.path) as file:
            shape = file.get_slice(name).get_shape()
            if len(shape) < 2:
                return file.get_tensor(name)
            first = file.get_slice(name)[:1]
        array = np.empty(shape, first.dtype)
        rows = max(1, _PART_BYTES // max(1, first.nbytes))
        for start in range(0, shape[0], rows):
            with self._open(self.path) as file:
                part = slice(start, min(start + rows, shape[0]))
                array[part] = file.get_slice(name)[part]
        return array

    @staticmethod
    @contextlib.contextmanager
    def _open(path: Path) -> Iterator[Any]:
        from safetensors import SafetensorError, safe_open

        with (
            _explain_damage(path, SafetensorError),
            safe_open(path, framework="numpy") as file,
        ):
            yield file


class ShardedArrays(Arrays):
    """Arrays of several files.

    Args:
        path: Their index in JSON, whose weight_map has the file of each array.
        open_file: Opens one of the files.

    Attributes:
        files: The files.

    Raises:
        UserError: If one cannot be read, or lacks arrays of the index.
    """

    def __init__(self, path: Path, open_file: Callable[[Path], Arrays]):
        places = read_settings(path, "a model's folder").get("weight_map")
        places = places if isinstance(places, dict) else {}
        names = list(places.values())
        if not names or not all(Path(str(name)).name == name for name in names):
            raise UserError(
                f"{path} must have a weight_map, with the name of a file beside it for "
                "each array. Download it again."
            )
        self.files = [path.parent / name for name in sorted(set(names))]
        self._parts = {
            name: part for part in map(open_file, self.files) for name in part.names
        }
        missing = sorted(set(places) - set(self._parts))
        if missing:
            raise UserError(
                f"No file of {path} has {', '.join(missing[:_SHOWN])}. Download the "
                "whole model again."
            )
        super().__init__(path, [*self._parts])

    def _load(self, name: str) -> np.ndarray:
        return self._parts[name].read(name)


@contextlib.contextmanager
def _explain_damage(path: Path, *others: type[Exception]) -> Iterator[None]:
    """Turns errors of a file that cannot be read, and others, into a `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (
        zipfile.BadZipFile,
        ValueError,
        EOFError,
        KeyError,
        TypeError,
        zlib.error,
        NotImplementedError,
        *others,
    ) as error:
        raise UserError(
            f"{path} is damaged or cut short: {error}. Download it again."
        ) from error


def as_float32(array: np.ndarray, name: str) -> np.ndarray:
    """Returns an array of floating-point numbers as float32; messages call it `name`.

    Raises:
        UserError: If it has numbers of another kind, such as quantized ones, or some
            that are not finite.
    """
    # NumPy knows no bfloat16: its kind is that of any type of others.
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        raise UserError(
            f"{name} has numbers of type {array.dtype}. Only models in floating point "
            "can be imported; quantized ones cannot."
        )
    array = array.astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        raise UserError(f"{name} has numbers that are NaN or infinite.")
    return array


def pad_heads(rows: np.ndarray, num_heads: int, size: int) -> np.ndarray:
    """Returns [H * size, D] from [H * K, D]: each head's rows, then rows of zeros."""
    heads_HKD = rows.reshape(num_heads, -1, rows.shape[1])
    missing = size - heads_HKD.shape[1]
    padded = np.pad(heads_HKD, [(0, 0), (0, missing), (0, 0)])
    return padded.reshape(num_heads * size, -1)


def fit_heads(array: np.ndarray, path: str, sizes: Mapping[str, Any]) -> np.ndarray:
    """Returns a weight of attention with heads of d_model / num_heads.

    Zeros are added, which change neither scores nor sums. Queries are scaled, since
    scores are divided by the square root of the head's size.

    Args:
        array: The weight.
        path: Its path below the model; other weights than attention's are returned.
        sizes: Those of the model, as `Transformer.sizes`.
    """
    name = path.rsplit("/", 1)[1]
    heads, size = sizes["num_heads"], sizes["d_model"] // sizes["num_heads"]
    if name.startswith(("query", "key", "value")):
        rows = array.T if array.ndim > 1 else array[:, None]
        array = pad_heads(rows, heads, size).T
        array = array if name.endswith("kernel") else array[0]
        if name.startswith("query"):
            array = array * (size / sizes["d_k"]) ** 0.5
    elif name == "output_kernel":
        array = pad_heads(array, heads, size)
    return array
