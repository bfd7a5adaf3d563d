"""The training step of this project, as `python -m t2t_keras.train` makes it."""

from benchmarks.product_step import made_up_batch, product_step
from benchmarks.training_step import measured
from t2t_keras.runs import optimization
from t2t_keras.settings.config import ExperimentConfig, ModelConfig, TrainingConfig


def main() -> None:
    """Times steps on one batch."""
    given = measured.arguments(precision=["float32", "bfloat16"], xla=["on", "off"])
    config = ExperimentConfig(
        model=ModelConfig(
            num_layers=measured.LAYERS,
            d_model=measured.WIDTH,
            d_ff=measured.INNER,
            num_heads=measured.HEADS,
            dropout_rate=measured.DROPOUT,
        ),
        training=TrainingConfig(
            label_smoothing=measured.SMOOTHING,
            precision=given.precision,
            jit_compile=given.xla == "on",
        ),
    )
    if (given.xla == "on") != optimization.uses_xla(config.training):
        raise SystemExit("On a CPU training leaves XLA out of bfloat16: --xla=off")
    stepper = product_step(config, measured.VOCABULARY).stepper
    batch = made_up_batch(measured.VOCABULARY, given.rows, given.length, given.length)

    def step() -> float:
        losses = stepper.train(batch).losses
        return float(losses.loss_sum) / float(losses.token_count)

    measured.report(step, given.rows * given.length, given.steps)


if __name__ == "__main__":
    main()
