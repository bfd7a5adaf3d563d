"""Peak memory of a layer's forward pass and gradients, measured in a new process.

    python -m benchmarks.layer_types.memory --layer=LSTM --rows=2 --sizes=512x64,1024x64

prints, as JSON, the bytes for each size: the peak memory of the process, minus its
memory before. Sizes should increase, because the peak never falls.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def measure_bytes(layer: str, rows: int, sizes: Sequence[tuple[int, int]]) -> list[int]:
    """Returns the peak memory in bytes at each (length, width), from a new process.

    Raises:
        subprocess.CalledProcessError: If it fails; its error output is not captured.
    """
    listed = ",".join(f"{length}x{width}" for length, width in sizes)
    command = [sys.executable, "-m", "benchmarks.layer_types.memory"]
    done = subprocess.run(
        [*command, f"--layer={layer}", f"--rows={rows}", f"--sizes={listed}"],
        stdout=subprocess.PIPE,
        check=True,
        cwd=_ROOT,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main(argv: Sequence[str] | None = None) -> None:
    """Measures one layer in this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layer", required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--sizes", required=True)
    args = parser.parse_args(argv)
    sizes = [tuple(map(int, size.split("x"))) for size in args.sizes.split(",")]
    print(json.dumps(measure_bytes_here(args.layer, args.rows, sizes)))


def measure_bytes_here(
    name: str, rows: int, sizes: Sequence[tuple[int, ...]]
) -> list[int]:
    """Returns the increase of this process' peak memory in bytes, for each size."""
    from benchmarks.layer_types.layers import layer_types
    from benchmarks.layer_types.timing import build_step

    (layer,) = (one for one in layer_types() if one.name == name)
    # A first run allocates memory that does not depend on the size. It is measured only
    # once: memory that one size leaves allocated must not be subtracted from the next.
    build_step(layer.build(sizes[0][1]), rows, 8, sizes[0][1], training=True)()
    before = _read_status("VmRSS")
    peaks = []
    for length, width in sizes:
        build_step(layer.build(width), rows, length, width, training=True)()
        peaks.append(_read_status("VmHWM") - before)
    return peaks


def _read_status(name: str) -> int:
    """Returns a value of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return 1024 * int(kilobytes)


if __name__ == "__main__":
    main()
