"""What XLA makes of a program for a GPU that is not there: memory, kernels, traffic.

    python -m benchmarks.gpu.offline --program=DIR/NAME ...

Compiles for the target without a device, in seconds on a CPU. Nothing is run and no
kernel is tuned, so this gives no speed; but it shows what a change of the model does to
the kernels, and to the bytes that they read and write. The last column is the time of
these bytes or of the FLOPs at the rates of the flags, whichever is longer for a kernel.
It is no bound: a kernel may find in the cache what the one before wrote, and tuning may
choose other kernels.
Needs Linux, and JAX with its plugin for CUDA:
`pip install jax jax-cuda13-plugin jax-cuda13-pjrt`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu.executable import compile_offline
from benchmarks.gpu.hlo import Module
from benchmarks.gpu.kernel_kinds import KernelKinds
from benchmarks.gpu.manifest import load_manifest, load_program_text

# Data sheet, and what CUDA reports of such a card. XLA reads sizes and rates from it.
H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 3352320000000
  device_memory_size: 84929347584
  l2_cache_size: 52428800
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  threads_per_warp: 32
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  registers_per_block_limit: 65536
  registers_per_core_limit: 65536
}
platform_name: "CUDA"
runtime_version { major: 13 }
dnn_version_info { major: 9 minor: 12 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a table for each program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--program", type=Path, nargs="+", required=True)
    add("--terabytes", type=float, default=3.0, help="Per second, of copies.")
    add(
        "--teraflops",
        type=float,
        default=800.0,
        help="Per second, of products; float32 has half.",
    )
    args = parser.parse_args(argv)
    for folder in args.program:
        manifest = load_manifest(folder)
        text, planned = compile_offline(load_program_text(folder), H100)
        print(f"{folder}: {planned / 1e9:.2f} GB of memory\n")
        module = Module(text)
        kinds = KernelKinds(module, manifest.kind)
        # Number of kernels, bytes, and seconds at the rates, by kind.
        totals: dict[str, list[float]] = {}
        # A search has a step before its loop.
        for kernel in module.list_kernels(turns=manifest.target_length - 1):
            seconds = max(kernel.bytes / args.terabytes, kernel.flops / args.teraflops)
            for kind in (kinds.classify(kernel.name), "all"):
                total = totals.setdefault(kind, [0, 0.0, 0.0])
                total[0] += kernel.runs
                total[1] += kernel.runs * kernel.bytes / 1e9
                total[2] += kernel.runs * seconds / 1e9
        print("| kind | kernels | GB read and written | ms at the rates |")
        print("| --- | --- | --- | --- |")
        for kind, total in sorted(totals.items(), key=lambda item: item[1][1]):
            print(f"| {kind} | {total[0]:,} | {total[1]:.2f} | {total[2]:.2f} |")
        print(flush=True)


if __name__ == "__main__":
    main()
