"""Peak memory of a layer's forward pass with gradients, in a process of its own.

    python -m benchmarks.layer_types.memory --layer=LSTM --rows=2 --sizes=512x64,1024x64

prints, as JSON, bytes for each size: the process' high-water mark, less what it had
before. Sizes should grow: a mark only ever rises.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def measured_bytes(
    layer: str, rows: int, sizes: Sequence[tuple[int, int]]
) -> list[int]:
    """Returns the peak memory at each (length, width), from a fresh process.

    Raises:
        subprocess.CalledProcessError: If it fails; its errors are printed.
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
    given = parser.parse_args(argv)
    sizes = [tuple(map(int, size.split("x"))) for size in given.sizes.split(",")]
    print(json.dumps(bytes_of(given.layer, given.rows, sizes)))


def bytes_of(name: str, rows: int, sizes: Sequence[tuple[int, ...]]) -> list[int]:
    """Returns by how much the process' memory rose above what it was before."""
    from benchmarks.layer_types.layers import layer_types
    from benchmarks.layer_types.timing import step_of

    (layer,) = (one for one in layer_types() if one.name == name)
    # All that comes with the first run of such a layer, whatever its size. Measured
    # once: what a size leaves behind must not be taken off the next.
    step_of(layer.build(sizes[0][1]), rows, 8, sizes[0][1], training=True)()
    before = _status("VmRSS")
    peaks = []
    for length, width in sizes:
        step_of(layer.build(width), rows, length, width, training=True)()
        peaks.append(_status("VmHWM") - before)
    return peaks


def _status(name: str) -> int:
    """Returns a line of what Linux says of this process, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return 1024 * int(kilobytes)


if __name__ == "__main__":
    main()
