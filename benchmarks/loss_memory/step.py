"""Time and memory of the whole training step with one implementation of the loss.

    python -m benchmarks.loss_memory.step one_hot --tokens=8192

Forward, loss, gradient and Adam are those of `python -m t2t_keras.train`. Only in this
process, the loss is replaced in the module that calls it.
"""

from collections.abc import Sequence
from unittest import mock

from benchmarks.loss_memory.one_way import (
    LOSSES,
    arguments,
    measure_steps,
    print_figures,
)
from benchmarks.product_step import (
    build_product_step,
    load_config,
    make_synthetic_batch,
)
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.training import update

LENGTH = 32


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures of one implementation; `nothing` only imports."""
    args = arguments(argv)
    if args.way == "nothing":
        print_figures({})
        return
    config = load_config(args.config)
    print_figures(
        measure_with_loss(args.way, config, args.words, args.tokens, args.steps)
    )


def measure_with_loss(
    way: str, config: ExperimentConfig, words: int, tokens: int, steps: int
) -> dict:
    """Returns the figures of `measure_steps` for the step with a replaced loss.

    Raises:
        SystemExit: If the step did not call the replacement.
    """
    stepper = build_product_step(config, words).stepper
    batch = make_synthetic_batch(words, tokens // LENGTH, LENGTH, LENGTH)

    def step() -> tuple[float, float]:
        sums = stepper.train(batch)
        loss = float(sums.losses.loss_sum) / float(sums.losses.token_count)
        return loss, float(sums.gradient_norm)

    name = "label_smoothed_cross_entropy"
    with mock.patch.object(update, name, wraps=LOSSES[way]) as replacement:
        figures = measure_steps(step, steps)
    if not replacement.called:
        raise SystemExit(f"The step must call {name} of {update.__name__}.")
    return figures


if __name__ == "__main__":
    main()
