"""Choices of a training step by device: what it does differently on CPUs and GPUs.

The model and the mathematics of an update are the same everywhere; sums are taken in
another order, so results differ by rounding.
"""

from typing import NamedTuple

import tensorflow as tf


class DeviceChoices(NamedTuple):
    """Choices of a step for a kind of device.

    Attributes:
        xla_for_bfloat16: Whether XLA has fast products of bfloat16. On CPUs it does
            not, and TensorFlow's own are three times as fast as float32 with either
            (benchmarks/README.md).
        logits_at_once: Maximum number of logits that the loss has in memory at a time.
        compiles_ahead: Whether all programs are compiled and tried before the first
            update, for a GPU tells what does not fit into its memory. On CPUs each is
            compiled when it is first needed, and training starts sooner.
    """

    xla_for_bfloat16: bool
    logits_at_once: int
    compiles_ahead: bool


def choices_for(device: str) -> DeviceChoices:
    """Returns the choices for a kind of device, "cpu" or "gpu".

    Raises:
        ValueError: If `device` is neither.
    """
    if device == "cpu":
        # 256 MiB of float32: enough rows for a fast product, small compared with the
        # model.
        return DeviceChoices(
            xla_for_bfloat16=False, logits_at_once=2**26, compiles_ahead=False
        )
    if device == "gpu":
        # Products of few rows leave a part of a GPU idle, or are cut along the
        # vocabulary, which XLA pads and copies for that; and each chunk adds to the
        # gradient of the embeddings, 76 MB for 37,000 words of width 512.
        return DeviceChoices(
            xla_for_bfloat16=True, logits_at_once=2**28, compiles_ahead=True
        )
    raise ValueError(f'device must be "cpu" or "gpu". Received: {device}')


def current_device() -> str:
    """Returns the kind of device that this process trains on."""
    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"
