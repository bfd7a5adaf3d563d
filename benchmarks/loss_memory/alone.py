"""One way to compute the loss, alone with its gradient, compiled by XLA.

python -m benchmarks.loss_memory.alone one_hot --tokens=8192
"""

from collections.abc import Sequence

import tensorflow as tf

from benchmarks.loss_memory.one_way import (
    LOSSES,
    SMOOTHING,
    arguments,
    figures_of,
    print_figures,
)

WIDTH = 512


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures of one way; of `nothing`, the memory of importing."""
    given = arguments(argv)
    if given.way == "nothing":
        print_figures({})
        return
    loss = LOSSES[given.way]

    @tf.function(jit_compile=True)
    def gradients(hidden, embeddings, targets, weights):
        with tf.GradientTape() as tape:
            tape.watch([hidden, embeddings])
            loss_sum = loss(
                hidden, embeddings, targets, weights, label_smoothing=SMOOTHING
            ).loss_sum
        return loss_sum, tape.gradient(loss_sum, [hidden, embeddings])

    tf.random.set_seed(0)
    inputs = (
        tf.random.normal([given.tokens, WIDTH]),
        tf.random.normal([given.words, WIDTH], stddev=WIDTH**-0.5),
        tf.random.uniform([given.tokens], 3, given.words, tf.int32),
        tf.ones([given.tokens]),
    )

    def step() -> tuple[float, float]:
        loss_sum, found = gradients(*inputs)
        return float(loss_sum), float(tf.linalg.global_norm(found))

    print_figures(figures_of(step, given.steps))


if __name__ == "__main__":
    main()
