"""Compilation and execution of StableHLO on a JAX device, without tracing.

JAX has no public function to compile a program that it did not trace, so this module
uses private names of jax 0.10. They change between versions. All of them are in this
file, and if one is missing the error names the installed version.
"""

from collections.abc import Callable, Sequence

import jax


class Executable:
    """Program compiled for one device.

    Args:
        text: StableHLO with a function `main`.
        device: Any device of JAX.

    Raises:
        RuntimeError: If the installed JAX does not have the private names used here.
    """

    def __init__(self, text: str, device: jax.Device):
        self.device = device
        self._loaded = _call_private_api(
            lambda: device.client.compile_and_load(text, [device])
        )

    def __call__(self, arguments: Sequence[jax.Array]) -> list[jax.Array]:
        """Starts a run and returns its results, which JAX computes asynchronously.

        Arguments that the program replaces are donated: XLA writes the new values into
        their memory.
        """
        results = _call_private_api(
            lambda: self._loaded.execute_sharded(list(arguments))
        )
        parts = _call_private_api(results.disassemble_into_single_device_arrays)
        return [on_devices[0] for on_devices in parts]

    def planned_bytes(self) -> int:
        """Returns the peak memory that XLA planned, including arguments."""
        stats = _call_private_api(self._loaded.get_compiled_memory_stats)
        return (
            stats.argument_size_in_bytes
            + stats.output_size_in_bytes
            - stats.alias_size_in_bytes
            + stats.temp_size_in_bytes
        )

    def optimized_text(self) -> str:
        """Returns the program as XLA optimized it for the device, HLO as text."""
        return _call_private_api(lambda: self._loaded.hlo_modules()[0].to_string())


def peak_bytes(device: jax.Device) -> int | None:
    """Returns the peak memory in use on a device; None if JAX does not count it."""
    return (device.memory_stats() or {}).get("peak_bytes_in_use")


def _call_private_api(call: Callable):
    try:
        return call()
    except (AttributeError, TypeError) as error:
        raise RuntimeError(
            "benchmarks/gpu/executable.py uses names inside of JAX as jax 0.10 has "
            f"them. Received: jax {jax.__version__}, which answers: {error}. Install "
            "jax 0.10, or mend that file."
        ) from error
