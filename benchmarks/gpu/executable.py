"""Compilation and execution of StableHLO on a JAX device, without tracing.

JAX has no public function to compile a program that it did not trace, so this module
uses private names of jax 0.10 and 0.11. They change between versions. All of them are
in this file, and if one is missing the error names the installed version.
"""

import functools
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path

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
        return _planned_bytes(self._loaded)

    def optimized_text(self) -> str:
        """Returns the program as XLA optimized it for the device, HLO as text."""
        return _call_private_api(lambda: self._loaded.hlo_modules()[0].to_string())


def compile_offline(text: str, target: str) -> tuple[str, int]:
    """Compiles a program for a GPU that is not there.

    Args:
        text: StableHLO with a function `main`.
        target: XLA's `GpuTargetConfigProto` of the GPU, as text.

    Returns:
        The optimized program, HLO as text, and the bytes of memory that it needs.

    Raises:
        SystemExit: If JAX's plugin for CUDA is not installed.
    """
    try:
        found = importlib.util.find_spec("jax_plugins.xla_cuda13")
    except ModuleNotFoundError:
        found = None
    if found is None or found.origin is None:
        raise SystemExit(
            "Compiling for a GPU needs JAX's plugin for CUDA. Received: jax "
            f"{jax.__version__} without it. "
            "pip install jax jax-cuda13-plugin jax-cuda13-pjrt"
        )
    # Nothing can be timed without the device.
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_autotune_level=0".strip()
    library = str(Path(found.origin).with_name("xla_cuda_plugin.so"))
    executable = _call_private_api(lambda: _compile_by_plugin(text, target, library))
    (optimized,) = executable.hlo_modules()
    return optimized.to_string(), _planned_bytes(executable)


@functools.cache
def _load_plugin(library: str):
    from jax._src.lib import xla_client

    api = xla_client.load_pjrt_plugin_dynamically("cuda", library)
    xla_client.initialize_pjrt_plugin("cuda")
    return api


def _compile_by_plugin(text: str, target: str, library: str):
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    topology = xla_client.make_c_api_device_topology(
        _load_plugin(library), "offline", topology="1x1x1", target_config=target
    )
    (device,) = topology._make_compile_only_devices()
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
    return device.client.compile(
        module, xla_client.DeviceList((device,)), xla_client.CompileOptions()
    )


def _planned_bytes(executable) -> int:
    stats = _call_private_api(executable.get_compiled_memory_stats)
    return (
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
    )


def peak_bytes(device: jax.Device) -> int | None:
    """Returns the peak memory in use on a device; None if JAX does not count it."""
    return (device.memory_stats() or {}).get("peak_bytes_in_use")


def _call_private_api(call: Callable):
    try:
        return call()
    except (AttributeError, ImportError, TypeError) as error:
        raise RuntimeError(
            "benchmarks/gpu/executable.py uses names inside of JAX as jax 0.10 and "
            f"0.11 have them. Received: jax {jax.__version__}, which answers: {error}. "
            "Install one of these, or mend that file."
        ) from error
