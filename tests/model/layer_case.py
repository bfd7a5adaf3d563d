"""Test case for a layer: its configuration and inputs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np


@dataclass(frozen=True)
class Case:
    """Layer class, its configuration, and its call arguments by name.

    `hides` names, for each mask [B, 1, L], the input [B, L, D] whose positions it
    hides; a mask of the case has a True in every row, and a False somewhere.
    `compiled` is False where another case already compiles the same code with XLA.
    `make_layer` takes the configuration and `dtype`; None for the class itself.
    """

    layer_class: type
    config: Mapping[str, Any]
    inputs: Mapping[str, Any]
    hides: Mapping[str, str] = field(default_factory=dict)
    compiled: bool = True
    make_layer: Callable[..., Any] | None = None

    def make(self, **changed: Any) -> Any:
        """Returns a new layer, with changes of its configuration."""
        make_layer = self.make_layer or self.layer_class
        return make_layer(**{**self.config, **changed})

    def call(self, layer: Any, **changed: Any) -> np.ndarray:
        outputs = layer(**{**self.inputs, **changed})
        return keras.ops.convert_to_numpy(keras.ops.cast(outputs, "float32"))
