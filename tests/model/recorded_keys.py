"""Recorder of the keys that each dropout site of a model receives."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from keras import ops

from t2t_keras.model.dropout import Dropout


@contextmanager
def record_keys() -> Iterator[list[int]]:
    """Yields a list to which eager calls of `Dropout` append the keys of their rows."""
    keys: list[int] = []
    call = Dropout.call

    def record(self: Dropout, inputs: Any, dropout_keys: Any = None) -> Any:
        keys.extend(ops.convert_to_numpy(dropout_keys).tolist())
        return call(self, inputs, dropout_keys=dropout_keys)

    with mock.patch.object(Dropout, "call", record):
        yield keys
