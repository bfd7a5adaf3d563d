"""Speed of a device's matrix products at the shapes of a model."""

import functools
import time
from collections.abc import Mapping

import jax
import jax.numpy as jnp

# Number of logits per product. The product with the vocabulary takes a chunk of a
# batch's tokens at a time, as the loss does on a GPU.
_LOGITS_PER_PRODUCT = 2**28


def product_ceiling(
    sizes: Mapping[str, int], tokens: int, dtype: str, seconds: float = 1.0
) -> float:
    """Returns the FLOP/s of matrix products alone on the default device.

    Times three pairs of products, from D to D, F and V and back, weighted by their
    fraction of a training step. As in the program, float32 products have XLA's default
    precision, which is TensorFloat-32 on a GPU.

    Args:
        sizes: d_model, d_ff, num_layers, vocabulary_size.
        tokens: Tokens on one side of a batch.
        dtype: Data type of the products.
        seconds: Approximate duration of each measurement.
    """
    width, inner = sizes["d_model"], sizes["d_ff"]
    vocabulary = sizes["vocabulary_size"]
    chunk = min(tokens, max(1, _LOGITS_PER_PRODUCT // vocabulary))
    # Work per token pair: 4 + 4 + 4 square projections and 2 feed-forward networks per
    # layer, and the product with the vocabulary.
    pairs = (
        (tokens, width, 12 * width**2 * sizes["num_layers"]),
        (tokens, inner, 4 * width * inner * sizes["num_layers"]),
        (chunk, vocabulary, width * vocabulary),
    )
    total = sum(work for *_, work in pairs)
    seconds_per_flop = sum(
        work / total / _rate(rows, width, columns, dtype, seconds)
        for rows, columns, work in pairs
    )
    return 1.0 / seconds_per_flop


def _rate(rows: int, width: int, columns: int, dtype: str, seconds: float) -> float:
    """Returns the FLOP/s of [rows, width] times [width, columns], and back."""
    keys = jax.random.split(jax.random.key(0), 3)
    # Scaled to avoid both overflow and denormal numbers.
    start = jax.random.normal(keys[0], (rows, width), jnp.float32).astype(dtype)
    there = jax.random.normal(keys[1], (width, columns), jnp.float32) * width**-0.5
    back = jax.random.normal(keys[2], (columns, width), jnp.float32) * columns**-0.5
    there, back = there.astype(dtype), back.astype(dtype)

    # With a fixed number of turns, a GPU does not wait for the host between two.
    @functools.partial(jax.jit, static_argnums=0)
    def products(count, start, there, back):
        def there_and_back(_, hidden):
            return (hidden @ there) @ back

        return jax.lax.fori_loop(0, count, there_and_back, start)

    def time_products(count: int) -> float:
        begin = time.perf_counter()
        products(count, start, there, back).block_until_ready()
        return time.perf_counter() - begin

    time_products(1)  # compiles
    count = max(1, round(seconds / 8 / time_products(1)))
    time_products(count)  # compiles
    best = min(time_products(count) for _ in range(7))
    return 4.0 * rows * width * columns * count / best
