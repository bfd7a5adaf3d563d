"""Checks of the Transformer's inputs.

Shapes: B batch, S source length, T target length.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.typing import DECODER_INPUT_TOKENS, ENCODER_INPUT_TOKENS, Tensor


def check_inputs(inputs: Any) -> None:
    """Raises `UserError` unless inputs are a dict with ids of sources and targets."""
    expected = (
        f'Transformer takes a dict with "{ENCODER_INPUT_TOKENS}" [B, S] int and '
        f'"{DECODER_INPUT_TOKENS}" [B, T] int, the target shifted right by one.'
    )
    if not isinstance(inputs, Mapping):
        raise UserError(f"{expected} Received: {type(inputs).__name__}")
    for name in (ENCODER_INPUT_TOKENS, DECODER_INPUT_TOKENS):
        if name not in inputs:
            raise UserError(f"{expected} Received: a dict with {sorted(inputs)}")
        # A list has no shape.
        shape = tuple(getattr(inputs[name], "shape", ()))
        if len(shape) != 2:
            raise UserError(f"{expected} Received: {name} of shape {shape}")


def to_source_ids(tokens: Any) -> Tensor:
    """Returns source ids [B, S] int32.

    Raises:
        UserError: If they are something else.
    """
    ids = ops.convert_to_tensor(tokens)
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if len(ids.shape) != 2 or not keras.backend.is_int_dtype(dtype):
        raise UserError(
            "tokens must be source ids [B, S] int, each row ended by 1 and padded with "
            f"0. Received: shape {tuple(ids.shape)}, dtype {dtype}"
        )
    return ops.cast(ids, "int32")
