"""Profile of a step on a device: time by kernel and by kind of kernel."""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax

# Parts of kernel and instruction names; the first match wins.
_KINDS = (
    (
        "matrix products",
        ("gemm", "cublas", "cutlass", "xmma", "nvjet", "dot", "matmul", "eigen"),
    ),
    ("copies", ("memcpy", "memset", "copy", "transpose")),
    ("fused elementwise and reductions", ("fusion", "reduce", "scatter", "gather")),
)


def kernel_times(run: Callable[[], None]) -> tuple[Counter, Counter]:
    """Returns the seconds of a run by kind of kernel and by name of kernel.

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
                "--profile needs jax.profiler.ProfileData and a recording. Received: "
                f"jax {jax.__version__} and {len(files)} recordings. Leave it out."
            )
        profile = jax.profiler.ProfileData.from_file(str(files[0]))
        return _sum_times(profile)


def _sum_times(profile) -> tuple[Counter, Counter]:
    planes = list(profile.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    kinds, names = Counter(), Counter()
    for plane in devices or planes:
        for line in plane.lines:
            # A GPU has lines that sum up its streams. A CPU's threads also have
            # functions of the runtime, with C++ names, around those of the program.
            if devices and not line.name.startswith("Stream"):
                continue
            for event in line.events:
                if devices or ("XLA" in line.name.upper() and "::" not in event.name):
                    seconds = event.duration_ns / 1e9
                    names[event.name] += seconds
                    kinds[classify_kernel(event.name)] += seconds
    return kinds, names


def classify_kernel(name: str) -> str:
    """Returns the kind of a kernel, guessed from its name."""
    lower = name.lower()
    for kind, parts in _KINDS:
        if any(part in lower for part in parts):
            return kind
    return "other"
