"""What a device's matrix products reach at the shapes of a model."""

import time
from collections.abc import Mapping

import jax
import jax.numpy as jnp

# A product over the vocabulary is made of some of a batch's tokens, as the chunked
# loss makes it: this many logits at a time.
_LOGITS_AT_ONCE = 2**26


def product_ceiling(
    sizes: Mapping[str, int], tokens: int, dtype: str, seconds: float = 1.0
) -> float:
    """Returns the FLOP/s of matrix products alone on the default device.

    Three pairs of products, there and back: D to D, D to F, D to V, weighted by how
    much of a training step is like each. float32 is multiplied as XLA does by
    default, on a GPU in TensorFloat-32: as in the program.

    Args:
        sizes: d_model, d_ff, num_layers, vocabulary_size.
        tokens: Of one side of a batch.
        dtype: What is computed in.
        seconds: About how long to measure each.
    """
    width, inner = sizes["d_model"], sizes["d_ff"]
    vocabulary = sizes["vocabulary_size"]
    chunk = min(tokens, max(1, _LOGITS_AT_ONCE // vocabulary))
    # Of a token pair's work: 4 + 4 + 4 square projections and 2 feed-forward networks
    # a layer, and the vocabulary.
    pairs = (
        (tokens, width, 12 * width**2 * sizes["num_layers"]),
        (tokens, inner, 4 * width * inner * sizes["num_layers"]),
        (chunk, vocabulary, width * vocabulary),
    )
    whole = sum(work for *_, work in pairs)
    seconds_per_flop = sum(
        work / whole / _rate(rows, width, columns, dtype, seconds)
        for rows, columns, work in pairs
    )
    return 1.0 / seconds_per_flop


def _rate(rows: int, width: int, columns: int, dtype: str, seconds: float) -> float:
    """Returns FLOP/s of [rows, width] times [width, columns] and back again."""
    keys = jax.random.split(jax.random.key(0), 3)
    # Scaled so that neither large numbers nor denormal ones come about.
    start = jax.random.normal(keys[0], (rows, width), jnp.float32).astype(dtype)
    there = jax.random.normal(keys[1], (width, columns), jnp.float32) * width**-0.5
    back = jax.random.normal(keys[2], (columns, width), jnp.float32) * columns**-0.5
    there, back = there.astype(dtype), back.astype(dtype)

    @jax.jit
    def products(count, start, there, back):
        def there_and_back(_, hidden):
            return (hidden @ there) @ back

        return jax.lax.fori_loop(0, count, there_and_back, start)

    def measured(count: int) -> float:
        begin = time.perf_counter()
        products(count, start, there, back).block_until_ready()
        return time.perf_counter() - begin

    measured(1)  # compiles
    count = 1
    while (took := measured(count)) < seconds / 8:
        count *= 2
    best = min(took, *(measured(count) for _ in range(6)))
    return 4.0 * rows * width * columns * count / best
