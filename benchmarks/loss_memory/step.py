"""The product's whole training step, with one way to compute the loss.

    python -m benchmarks.loss_memory.step one_hot --tokens=8192

Forward, loss, gradient and Adam, as `python -m t2t_keras.train` makes them. Another
loss takes the place of the product's where the step calls it, in this process alone.
"""

from collections.abc import Sequence
from unittest import mock

from benchmarks.loss_memory.one_way import (
    LOSSES,
    arguments,
    figures_of,
    print_figures,
)
from benchmarks.product_step import made_up_batch, named_config, product_step
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.training import update

LENGTH = 32


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures of one way; of `nothing`, the memory of importing."""
    given = arguments(argv)
    if given.way == "nothing":
        print_figures({})
        return
    config = named_config(given.config)
    print_figures(measured(given.way, config, given.words, given.tokens, given.steps))


def measured(
    way: str, config: ExperimentConfig, words: int, tokens: int, steps: int
) -> dict:
    """Returns what `figures_of` finds of the step with a loss.

    Raises:
        SystemExit: If the step called no such loss.
    """
    stepper = product_step(config, words).stepper
    batch = made_up_batch(words, tokens // LENGTH, LENGTH, LENGTH)

    def step() -> tuple[float, float]:
        sums = stepper.train(batch)
        loss = float(sums.losses.loss_sum) / float(sums.losses.token_count)
        return loss, float(sums.gradient_norm)

    name = "label_smoothed_cross_entropy"
    with mock.patch.object(update, name, wraps=LOSSES[way]) as called:
        figures = figures_of(step, steps)
    if not called.called:
        raise SystemExit(f"The step must call {name} of {update.__name__}.")
    return figures


if __name__ == "__main__":
    main()
