"""Learning-rate schedule: linear warm-up, then inverse square root (section 5.3)."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="t2t_keras")
class WarmupInverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """d_model^-0.5 * min(step_num^-0.5, step_num * warmup_steps^-1.5).

    Equation 3. The rate rises linearly for `warmup_steps` updates and then falls
    with the square root of the step number.

    Args:
        d_model: Model width.
        warmup_steps: Number of updates until the peak; the paper uses 4000.
        scale: Factor on the whole; 1 in the paper.

    Call args:
        step: Number of updates before this one, as Keras counts. The paper's
            step_num is one more, so the first update has a rate above 0.

    Returns:
        float32 scalar.

    Raises:
        ValueError: If an argument is not positive.
    """

    def __init__(self, d_model: int, warmup_steps: int, scale: float = 1.0):
        values = {"d_model": d_model, "warmup_steps": warmup_steps, "scale": scale}
        for name, value in values.items():
            if value <= 0:
                raise ValueError(f"{name} must be positive. Received: {value}")
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step):
        step_num = ops.cast(step, "float32") + 1.0
        factor = self.scale * self.d_model**-0.5
        return factor * ops.minimum(
            ops.rsqrt(step_num), step_num * self.warmup_steps**-1.5
        )

    def get_config(self):
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }
