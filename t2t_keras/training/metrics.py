"""Metrics of training: the lines of `metrics.jsonl`, and norms of the weights."""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.files.atomic import write_file


class MetricsFile:
    """Lines `{"step": 100, "time": "…", "loss": 4.1, …}`, each step at most once.

    Args:
        path: The file, made with the first line.
    """

    def __init__(self, path: Path):
        self._path = path

    def cut_after(self, step: int) -> None:
        """Takes away all lines of later steps, and what is no whole line.

        A run that goes on from a checkpoint makes the steps after it once more.

        Raises:
            OSError: If the file cannot be written; it is then as before.
        """
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return
        kept = [line for line in lines if _is_whole(line) and _step(line) <= step]
        if len(kept) < len(lines):
            write_file(self._path, b"".join(kept))

    def add(self, values: Mapping[str, Any]) -> None:
        """Adds a line.

        Raises:
            OSError: If the disk is full, say; then no part of the line is there.
        """
        line = f"{json.dumps(values, allow_nan=False)}\n".encode()
        with open(self._path, "ab", buffering=0) as file:
            before = file.tell()
            try:
                if file.write(line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(before)
                raise


def _is_whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line)["step"], int)
    except (ValueError, KeyError, TypeError):
        return False


def _step(line: bytes) -> int:
    return json.loads(line)["step"]


def weight_norm(weights: Sequence[keras.Variable]) -> float:
    """Returns the Euclidean norm of all weights together."""
    return float(tf.linalg.global_norm([weight.value for weight in weights]))


def norms_by_name(weights: Sequence[keras.Variable]) -> dict[str, float]:
    """Returns the Euclidean norm of each weight, by its path.

    In float64: where these are wanted, weights may be so large that their squares
    are no float32 any more.
    """
    return {
        weight.path: float(np.linalg.norm(np.asarray(weight.value, "float64")))
        for weight in weights
    }
