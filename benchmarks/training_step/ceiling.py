"""What matrix products reach at the shapes of the model, XLA's or TensorFlow's."""

import json
import statistics
import time

import tensorflow as tf

from benchmarks.training_step.measured import INNER, VOCABULARY, WIDTH, arguments

# Rows x inner x columns, and how much of the work of a step is like it: the square
# projections, the two of the feed-forward network, the vocabulary.
SHAPES = (
    (WIDTH, WIDTH, 0.24),
    (WIDTH, INNER, 0.23),
    (INNER, WIDTH, 0.23),
    (WIDTH, VOCABULARY, 0.30),
)


def main() -> None:
    """Prints mean rates over the shapes, weighted by work, as JSON.

    TensorFlow's own, XLA's, and the ceiling: of each shape the faster.
    """
    given = arguments(precision=["float32", "bfloat16"])
    tokens = given.rows * given.length
    seconds_per_flop = dict.fromkeys(("", "tensorflow_", "xla_"), 0.0)
    for inner, columns, share in SHAPES:
        left, right = (
            tf.cast(tf.random.normal(shape), given.precision)
            for shape in ((tokens, inner), (inner, columns))
        )
        own, xla = (product_seconds(left, right, compiled) for compiled in (0, 1))
        share_per_flop = share / (2.0 * tokens * inner * columns)
        for name, seconds in zip(
            seconds_per_flop, (min(own, xla), own, xla), strict=True
        ):
            seconds_per_flop[name] += share_per_flop * seconds
    rates = {f"{name}flops_per_second": 1 / s for name, s in seconds_per_flop.items()}
    print(json.dumps(rates))


def product_seconds(left: tf.Tensor, right: tf.Tensor, compiled: int) -> float:
    """Returns the median of some products' seconds."""
    product = tf.function(tf.matmul, jit_compile=bool(compiled) or None)
    product(left, right)
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        product(left, right).numpy()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
