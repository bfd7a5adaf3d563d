"""Attention alone, by XLA's kernels and by cuDNN's flash attention, on one GPU.

    python -m benchmarks.gpu.attention --program=DIR/NAME --out=FILE

Our step is a program of XLA's own kernels, since TensorFlow calls no flash attention.
This is what such a call would save: forward and backward pass of the attention of one
layer of an update program, without its projections, as JAX computes it either way.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from benchmarks.gpu.manifest import load_manifest
from benchmarks.gpu.results import ATTENTION, Results

IMPLEMENTATIONS = ("xla", "cudnn")


def main(argv: Sequence[str] | None = None) -> None:
    """Times both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--platform", help="cpu or gpu. Default: JAX's choice.")
    args = parser.parse_args(argv)
    jax.config.update("jax_default_device", jax.devices(args.platform)[0])
    manifest = load_manifest(args.program)
    sizes = manifest.sizes
    shape = manifest.rows, manifest.target_length, sizes["num_heads"], sizes["d_k"]
    keys = jax.random.split(jax.random.key(0), 4)
    arrays = [jax.random.normal(key, shape, manifest.precision) for key in keys]
    for implementation in IMPLEMENTATIONS:
        results = Results(
            args.out,
            program=manifest.name,
            by=f"{ATTENTION}, {implementation}",
        )
        try:
            results.add(
                attention_seconds=time_attention(arrays, implementation, args.runs)
            )
        except Exception as error:
            # cuDNN needs a GPU, and takes no float32.
            results.add(error=f"{type(error).__name__}: {error}"[:500])


def time_attention(
    arrays: Sequence[jax.Array], implementation: str, runs: int
) -> float:
    """Returns the seconds of a forward and backward pass, in the median of five.

    Args:
        arrays: Queries, keys, values and gradient of the outputs, each [B, L, H, K].
        implementation: JAX's name of it.
        runs: Number of passes that are timed together, without waiting for each.
    """
    run = jax.jit(lambda *arrays: _differentiate(implementation, *arrays))
    jax.block_until_ready(run(*arrays))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(runs):
            results = run(*arrays)
        jax.block_until_ready(results)
        seconds.append((time.perf_counter() - start) / runs)
    return statistics.median(seconds)


def _differentiate(implementation: str, queries, keys, values, gradient):
    def attend(queries, keys, values):
        return jax.nn.dot_product_attention(
            queries, keys, values, is_causal=True, implementation=implementation
        )

    outputs, pull_back = jax.vjp(attend, queries, keys, values)
    return jnp.sum(outputs), pull_back(gradient)


if __name__ == "__main__":
    main()
