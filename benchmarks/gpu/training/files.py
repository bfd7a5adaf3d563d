"""State and weights of a training: NumPy files, each of which appears whole.

Weights travel in parts, for a machine may return files of limited size alone.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

STATE_FILE = "state.npz"
# 15.3 MiB of float32: a file of them stays below 16 MiB.
NUMBERS_PER_PART = 4_000_000


class State(NamedTuple):
    """State of a training between two updates.

    Attributes:
        step: Number of updates so far.
        seconds: Seconds of training so far.
        values: Weights, moments and counts by name.
        saved: Weights by name that were kept to be averaged, by their step.
    """

    step: int
    seconds: float
    values: dict[str, np.ndarray]
    saved: dict[int, dict[str, np.ndarray]]


def save_state(path: Path, state: State, digest: str) -> None:
    """Writes a state.

    Args:
        path: The file.
        state: The state.
        digest: Digest of the training that it belongs to.
    """
    arrays = {f"value:{name}": value for name, value in state.values.items()}
    for step, weights in state.saved.items():
        arrays |= {f"{step}:{name}": value for name, value in weights.items()}
    about = {"step": state.step, "seconds": state.seconds, "digest": digest}
    _write(path, arrays, about)


def load_state(path: Path, digest: str) -> State | None:
    """Returns the state in a file, None if there is no file.

    Raises:
        SystemExit: If it belongs to another training.
    """
    if not path.is_file():
        return None
    arrays, about = _read(path)
    if about["digest"] != digest:
        raise SystemExit(
            f"{path} must be of the training in --dir, which has the digest {digest}. "
            f"Received: {about['digest']}. Give another --out, or delete the file to "
            "start again."
        )
    values: dict[str, np.ndarray] = {}
    saved: dict[int, dict[str, np.ndarray]] = {}
    for key, value in arrays.items():
        kind, _, name = key.partition(":")
        part = values if kind == "value" else saved.setdefault(int(kind), {})
        part[name] = value
    return State(about["step"], about["seconds"], values, saved)


def save_weights(
    folder: Path, weights: Sequence[np.ndarray], about: Mapping[str, Any]
) -> None:
    """Writes weights as float32 into files weights-0.npz, weights-1.npz, ...

    Args:
        folder: Folder of the files, created if missing.
        weights: The weights.
        about: JSON values to store beside them.
    """
    flat = np.concatenate([weight.ravel() for weight in weights]).astype("float32")
    parts = np.split(flat, range(NUMBERS_PER_PART, len(flat), NUMBERS_PER_PART))
    for number, part in enumerate(parts):
        path = _weights_file(folder, number)
        _write(path, {"weights": part}, {**about, "parts": len(parts)})


def load_weights(
    folder: Path, shapes: Sequence[tuple[int, ...]]
) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Returns the weights in a folder, and what was stored beside them.

    Args:
        folder: Folder of the files.
        shapes: Shape of each weight, in order.

    Raises:
        SystemExit: If a file is missing, or they do not belong together.
    """
    about = read_about(folder)
    if about is None:
        raise SystemExit(
            "--weights must be the --out of benchmarks.gpu.training.run after the end "
            f"of a training. Received no {_weights_file(folder, 0)}."
        )
    parts = []
    for number in range(about["parts"]):
        path = _weights_file(folder, number)
        if not path.is_file():
            raise SystemExit(f"{path} must be there, one of {about['parts']} files.")
        arrays, other = _read(path)
        if other != about:
            raise SystemExit(f"{path} must be of the same training as the other files.")
        parts.append(arrays["weights"])
    flat = np.concatenate(parts)
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if len(flat) != ends[-1]:
        raise SystemExit(
            f"{folder} must have {ends[-1]:,} weights. Received: {len(flat):,}. Give "
            "the --dir that they were trained from."
        )
    split = np.split(flat, ends[:-1])
    return [part.reshape(s) for part, s in zip(split, shapes, strict=True)], about


def read_about(folder: Path) -> dict[str, Any] | None:
    """Returns what is stored beside the weights in a folder; None without weights."""
    path = _weights_file(folder, 0)
    return _read(path)[1] if path.is_file() else None


def _weights_file(folder: Path, number: int) -> Path:
    return folder / f"weights-{number}.npz"


def _write(path: Path, arrays: dict[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Writes arrays and JSON values; after a kill there is the old file, or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        np.savez(file, about=json.dumps(about), **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return arrays, json.loads(str(arrays.pop("about")))
