"""Speed of matrix products alone at the shapes of the model, by TensorFlow and XLA."""

import json
import statistics
import time

import tensorflow as tf

from benchmarks.training_step.measured import INNER, VOCABULARY, WIDTH, arguments

# Inner size, columns, and the fraction of a step's work in products of that shape: the
# square projections, the two of the feed-forward network, the vocabulary.
SHAPES = (
    (WIDTH, WIDTH, 0.24),
    (WIDTH, INNER, 0.23),
    (INNER, WIDTH, 0.23),
    (WIDTH, VOCABULARY, 0.30),
)


def main() -> None:
    """Prints mean rates over the shapes, weighted by work, as JSON.

    There is a rate for TensorFlow's products, one for XLA's, and the ceiling, which
    takes the faster of the two for each shape.
    """
    args = arguments(precision=["float32", "bfloat16"])
    tokens = args.rows * args.length
    seconds_per_flop = dict.fromkeys(("", "tensorflow_", "xla_"), 0.0)
    for inner, columns, fraction in SHAPES:
        left, right = (
            tf.cast(tf.random.normal(shape), args.precision)
            for shape in ((tokens, inner), (inner, columns))
        )
        plain, xla = (product_seconds(left, right, compiled) for compiled in (0, 1))
        fraction_per_flop = fraction / (2.0 * tokens * inner * columns)
        for name, seconds in zip(
            seconds_per_flop, (min(plain, xla), plain, xla), strict=True
        ):
            seconds_per_flop[name] += fraction_per_flop * seconds
    rates = {f"{name}flops_per_second": 1 / s for name, s in seconds_per_flop.items()}
    print(json.dumps(rates))


def product_seconds(left: tf.Tensor, right: tf.Tensor, compiled: int) -> float:
    """Returns the median time of a product in seconds."""
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
