"""Profile of a program on a device: time by kernel."""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax


def time_kernels(run: Callable[[], None]) -> Counter[str]:
    """Returns the seconds of a run by name of the instruction of each kernel.

    Args:
        run: Function that does the work to record and waits for its end.

    Raises:
        RuntimeError: If the installed JAX cannot read its own recordings.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run()
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        if not files or not hasattr(jax.profiler, "ProfileData"):
            raise RuntimeError(
                "A profile needs jax.profiler.ProfileData and a recording. Received: "
                f"jax {jax.__version__} and {len(files)} recordings."
            )
        profile = jax.profiler.ProfileData.from_file(str(files[0]))
        return _sum_times(profile)


def _sum_times(profile) -> Counter[str]:
    planes = list(profile.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    times: Counter[str] = Counter()
    for plane in devices or planes:
        for line in plane.lines:
            # A GPU has lines that sum up its streams. A CPU's threads also have
            # functions of the runtime, with C++ names, around those of the program.
            if devices and not line.name.startswith("Stream"):
                continue
            for event in line.events:
                if devices or ("XLA" in line.name.upper() and "::" not in event.name):
                    times[_instruction(event)] += event.duration_ns / 1e9
    return times


def _instruction(event) -> str:
    """Returns the name of the instruction that an event computes."""
    stats = dict(event.stats)
    return str(stats.get("hlo_op") or event.name)
