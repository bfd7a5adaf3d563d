"""What TensorFlow's matrix products reach at the shapes of the model."""

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
    """Prints the mean rate over the shapes, weighted by work, as JSON."""
    given = arguments(precision=["float32", "bfloat16"])
    tokens = given.rows * given.length
    seconds_per_flop = 0.0
    for inner, columns, share in SHAPES:
        left, right = (
            tf.cast(tf.random.normal(shape), given.precision)
            for shape in ((tokens, inner), (inner, columns))
        )
        product = tf.function(tf.matmul)
        product(left, right)
        seconds = []
        for _ in range(7):
            start = time.perf_counter()
            product(left, right).numpy()
            seconds.append(time.perf_counter() - start)
        work = 2.0 * tokens * inner * columns
        seconds_per_flop += share * statistics.median(seconds) / work
    print(json.dumps({"flops_per_second": 1 / seconds_per_flop}))


if __name__ == "__main__":
    main()
