"""Time and memory of one implementation of the loss and its gradient, with XLA.

python -m benchmarks.loss_memory.alone one_hot --tokens=8192
"""

from collections.abc import Sequence

import tensorflow as tf

from benchmarks.loss_memory.one_way import (
    LOSSES,
    SMOOTHING,
    arguments,
    measure_steps,
    print_figures,
)

WIDTH = 512


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures of one implementation; `nothing` only imports."""
    args = arguments(argv)
    if args.way == "nothing":
        print_figures({})
        return
    loss = LOSSES[args.way]

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
        tf.random.normal([args.tokens, WIDTH]),
        tf.random.normal([args.words, WIDTH], stddev=WIDTH**-0.5),
        tf.random.uniform([args.tokens], 3, args.words, tf.int32),
        tf.ones([args.tokens]),
    )

    def step() -> tuple[float, float]:
        loss_sum, gradient = gradients(*inputs)
        return float(loss_sum), float(tf.linalg.global_norm(gradient))

    print_figures(measure_steps(step, args.steps))


if __name__ == "__main__":
    main()
