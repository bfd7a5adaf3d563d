"""Initial values of variables, drawn from their names: equal on every machine.

The weights of big take 0.9 GB, so a program travels without them. Each element is a
hash of its number and of the variable's name, by integer arithmetic and one product, so
NumPy on the machine that writes a program and JAX on the one that runs it draw the same
bits.
"""

import dataclasses
import math
import zlib
from types import ModuleType

import numpy as np

from benchmarks.gpu.manifest import Argument

# Shift and factor of each round of the hash of dropout.
MIX_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B), (16, None))


def draw_value(argument: Argument, xp: ModuleType = np):
    """Returns a variable's initial value: uniform, or a constant.

    Args:
        argument: The variable.
        xp: numpy or jax.numpy, the library to compute with.
    """
    if argument.std == 0.0:
        return xp.full(argument.shape, argument.constant, argument.dtype)
    seed = np.uint32(zlib.crc32(argument.name.encode()))
    bits = xp.arange(math.prod(argument.shape), dtype="uint32")
    # Twice, with the name's between.
    bits = mix(mix(bits, xp) ^ seed, xp)
    # 24 bits, as many as a float32 has; from -1 to 1, so that the deviation is 3^-0.5.
    uniform = (bits >> np.uint32(8)).astype("float32") * np.float32(2.0**-23) - 1
    values = np.float32(argument.std * 3**0.5) * uniform
    return values.reshape(argument.shape).astype(argument.dtype)


def draw_for_seed(argument: Argument, seed: int) -> np.ndarray:
    """Returns a variable's initial value, other ones for each seed of training."""
    name = f"{argument.name} {seed}"
    return draw_value(dataclasses.replace(argument, name=name))


def mix(bits, xp: ModuleType = np):
    """Returns the hash of uint32 that `t2t_keras.model.dropout.mix` computes."""
    for shift, factor in MIX_ROUNDS:
        bits = bits ^ (bits >> xp.asarray(shift, "uint32"))
        if factor is not None:
            bits = bits * xp.asarray(factor, "uint32")
    return bits
