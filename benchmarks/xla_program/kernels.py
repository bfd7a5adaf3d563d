"""Where a step's time goes on a device: its kernels, by what they are."""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax

# Parts of kernel and instruction names, first match wins.
_KINDS = (
    (
        "matrix products",
        ("gemm", "cublas", "cutlass", "xmma", "nvjet", "dot", "matmul", "eigen"),
    ),
    ("copies", ("memcpy", "memset", "copy", "transpose")),
    ("fused elementwise and reductions", ("fusion", "reduce", "scatter", "gather")),
)


def kernel_times(run: Callable[[], None]) -> tuple[Counter, Counter]:
    """Returns seconds by kind of kernel and by name of kernel, of a run.

    Args:
        run: Does what is to be recorded and waits for it.

    Raises:
        RuntimeError: If the installed JAX cannot read what it records.
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
        return _summed(profile)


def _summed(profile) -> tuple[Counter, Counter]:
    planes = list(profile.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    kinds, names = Counter(), Counter()
    for plane in devices or planes:
        for line in plane.lines:
            # Beside its streams a GPU has lines that sum them up; a CPU's threads show
            # the runtime's own functions, by names of C++, round the program's.
            if devices and not line.name.startswith("Stream"):
                continue
            for event in line.events:
                if devices or ("XLA" in line.name.upper() and "::" not in event.name):
                    seconds = event.duration_ns / 1e9
                    names[event.name] += seconds
                    kinds[kind_of(event.name)] += seconds
    return kinds, names


def kind_of(name: str) -> str:
    """Returns what a kernel does, as far as its name tells."""
    lower = name.lower()
    for kind, parts in _KINDS:
        if any(part in lower for part in parts):
            return kind
    return "other"
