"""The types that join the packages.

Tensors are `Any`: neither Keras nor TensorFlow ships type information, so a
narrower name would promise a check that nobody makes. Shapes and dtypes stand
in docstrings and in the letters that end a local name:

    B batch, S source length, T target length, L either length, D model width,
    F inner width, H heads, K size per head, V vocabulary, W beam width.
"""

from typing import Any, TypeAlias

Tensor: TypeAlias = Any
Batch: TypeAlias = dict[str, Tensor]
