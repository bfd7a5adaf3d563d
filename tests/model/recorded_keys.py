"""Which keys every dropout site of a model is given."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from keras import ops

from t2t_keras.model.dropout import Dropout


@contextmanager
def recorded_keys() -> Iterator[list[int]]:
    """Yields a list that eager calls of `Dropout` fill, a row's key after another."""
    given: list[int] = []
    call = Dropout.call

    def recording(self: Dropout, inputs: Any, dropout_keys: Any = None) -> Any:
        given.extend(ops.convert_to_numpy(dropout_keys).tolist())
        return call(self, inputs, dropout_keys=dropout_keys)

    with mock.patch.object(Dropout, "call", recording):
        yield given
