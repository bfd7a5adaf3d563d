"""Training step of this project, as in `python -m t2t_keras.train`."""

from benchmarks.product_step import build_product_step, make_synthetic_batch
from benchmarks.training_step import measured
from t2t_keras.runs.training import optimization
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig


def main() -> None:
    """Times steps on one batch."""
    args = measured.arguments(precision=["float32", "bfloat16"], xla=["on", "off"])
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
            precision=args.precision,
            jit_compile=args.xla == "on",
        ),
    )
    if (args.xla == "on") != optimization.uses_xla(config.training):
        raise SystemExit("On a CPU training leaves XLA out of bfloat16: --xla=off")
    stepper = build_product_step(config, measured.VOCABULARY).stepper
    batch = make_synthetic_batch(
        measured.VOCABULARY, args.rows, args.length, args.length
    )

    def step() -> float:
        losses = stepper.train(batch).losses
        return float(losses.loss_sum) / float(losses.token_count)

    measured.report(step, args.rows * args.length, args.steps)


if __name__ == "__main__":
    main()
