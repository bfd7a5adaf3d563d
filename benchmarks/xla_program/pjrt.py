"""Compiles StableHLO on a JAX device and runs it, without tracing anything.

JAX has no public way to compile a program that it did not trace, so this uses names
of its inside, as of jax 0.10. They move between versions: every one of them is in
this file, and where one is gone the error says with which version.
"""

from collections.abc import Callable, Sequence

import jax


class Executable:
    """A program, compiled for one device.

    Args:
        text: StableHLO with a function `main`.
        device: Of any kind that JAX has.

    Raises:
        RuntimeError: If the installed JAX has not the names that this needs.
    """

    def __init__(self, text: str, device: jax.Device):
        # Whole 64 bits: counts are int64, and JAX would halve them on the way in.
        jax.config.update("jax_enable_x64", True)
        self.device = device
        self._loaded = _inside(lambda: device.client.compile_and_load(text, [device]))

    def __call__(self, arguments: Sequence[jax.Array]) -> list[jax.Array]:
        """Starts a run; returns results that are there once they are waited for.

        Those arguments that the program replaces are given up: XLA writes the new
        values where the old ones were.
        """
        results = _inside(lambda: self._loaded.execute_sharded(list(arguments)))
        parts = _inside(results.disassemble_into_single_device_arrays)
        return [on_devices[0] for on_devices in parts]

    def planned_bytes(self) -> int:
        """Returns what XLA planned to need at a time, arguments included."""
        stats = _inside(self._loaded.get_compiled_memory_stats)
        return (
            stats.argument_size_in_bytes
            + stats.output_size_in_bytes
            - stats.alias_size_in_bytes
            + stats.temp_size_in_bytes
        )


def peak_bytes(device: jax.Device) -> int | None:
    """Returns the most memory that was in use on a device, None where nobody counts."""
    return (device.memory_stats() or {}).get("peak_bytes_in_use")


def _inside(call: Callable):
    try:
        return call()
    except (AttributeError, TypeError) as error:
        raise RuntimeError(
            "benchmarks/xla_program/pjrt.py uses names inside of JAX as jax 0.10 has "
            f"them. Received: jax {jax.__version__}, which answers: {error}. Install "
            "jax 0.10, or mend that file."
        ) from error
