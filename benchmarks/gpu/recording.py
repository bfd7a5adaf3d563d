"""Recording of JAX's profiler: time by kernel."""

from collections import Counter
from collections.abc import Callable
from typing import Any


def sum_times(
    recording: Any, is_known: Callable[[str], bool], platform: str
) -> Counter[str]:
    """Returns the seconds by name of the instruction of each kernel.

    Args:
        recording: A `jax.profiler.ProfileData`.
        is_known: Whether the program has an instruction of a name.
        platform: JAX's name of the platform: cpu, gpu or tpu.

    Raises:
        RuntimeError: If there is no kernel.
    """
    planes = list(recording.planes)
    times: Counter[str] = Counter()
    for plane in planes:
        if plane.name.startswith("/device:") == (platform == "cpu"):
            continue
        for line in plane.lines:
            for event in line.events:
                if _is_kernel(line.name, event.name, platform):
                    name = _instruction(event, is_known)
                    times[name] += event.duration_ns / 1e9
    if not times:
        lines = [
            f"{plane.name} {line.name}" for plane in planes for line in plane.lines
        ]
        raise RuntimeError(f"The recording has no kernels. Received: {lines}")
    return times


def _is_kernel(line: str, event: str, platform: str) -> bool:
    if platform == "cpu":
        # Threads also have functions of the runtime, with C++ names, around those of
        # the program.
        return "XLA" in line.upper() and "::" not in event
    # Other lines sum up the streams.
    return line.startswith("Stream")


def _instruction(event: Any, is_known: Callable[[str], bool]) -> str:
    """Returns the name of the instruction that an event computes."""
    # A GPU's kernel has the name of its instruction, if XLA made it. One of a library
    # has its own, and one in a CUDA graph may have the graph's as hlo_op.
    named = str(dict(event.stats).get("hlo_op") or event.name)
    return named if is_known(named) else event.name
