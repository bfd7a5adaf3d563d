"""Test case for a layer: its configuration and inputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np


@dataclass(frozen=True)
class Case:
    """Layer class, its constructor arguments, and its call arguments by name.

    `hides` names, for each mask [B, 1, L], the input [B, L, D] whose positions it
    hides; a mask of the case has a True in every row, and a False somewhere.
    `compiled` is False where another case already compiles the same code with XLA.
    """

    layer_class: type
    config: Mapping[str, Any]
    inputs: Mapping[str, Any]
    hides: Mapping[str, str] = field(default_factory=dict)
    compiled: bool = True

    def call(self, layer: Any, **changed: Any) -> np.ndarray:
        outputs = layer(**{**self.inputs, **changed})
        return keras.ops.convert_to_numpy(keras.ops.cast(outputs, "float32"))
