"""Profile of a program on a device: time by kernel."""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax

from benchmarks.gpu.recording import sum_times


def time_kernels(
    run: Callable[[], None], is_known: Callable[[str], bool], platform: str
) -> Counter[str]:
    """Returns the seconds of a run by name of the instruction of each kernel.

    Args:
        run: Function that does the work to record and waits for its end.
        is_known: Whether the program has an instruction of a name.
        platform: JAX's name of the platform: cpu, gpu or tpu.

    Raises:
        RuntimeError: If the installed JAX cannot read its own recordings, or they have
            no kernels.
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
        return sum_times(profile, is_known, platform)
