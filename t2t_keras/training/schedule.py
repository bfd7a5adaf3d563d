"""Learning-rate schedules: the paper's (section 5.3), and others with a given peak."""

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


@keras.saving.register_keras_serializable(package="t2t_keras")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to a peak, then a constant, linear or inverse square root.

    The rate of the update step_num, from 1, is the smaller of
    peak * step_num / warmup_steps and, after the warm-up,

    - constant: peak
    - linear: peak * (train_steps + 1 - step_num) / (train_steps + 1 - warmup_steps),
      which would reach 0 one update after the last
    - inverse_square_root: peak * sqrt(warmup_steps / step_num)

    Args:
        decay: "constant", "linear" or "inverse_square_root".
        peak: Learning rate at the end of the warm-up.
        warmup_steps: Number of updates until the peak; 1 for no warm-up.
        train_steps: Total number of updates; only "linear" uses it.

    Call args:
        step: Number of updates before this one, as Keras counts.

    Returns:
        float32 scalar.

    Raises:
        ValueError: If a number is not positive, `decay` is unknown, or "linear" has
            no `train_steps` above `warmup_steps`.

    >>> schedule = WarmupSchedule("linear", peak=1.0, warmup_steps=2, train_steps=5)
    >>> [round(float(schedule(step)), 2) for step in range(5)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    """

    def __init__(
        self,
        decay: str,
        peak: float,
        warmup_steps: int,
        train_steps: int | None = None,
    ):
        if decay not in ("constant", "linear", "inverse_square_root"):
            raise ValueError(
                "decay must be constant, linear or inverse_square_root. "
                f"Received: {decay}"
            )
        for name, value in (("peak", peak), ("warmup_steps", warmup_steps)):
            if value <= 0:
                raise ValueError(f"{name} must be positive. Received: {value}")
        if decay == "linear" and not (train_steps and train_steps > warmup_steps):
            raise ValueError(
                "train_steps must be above warmup_steps for a linear decay. "
                f"Received: {train_steps} and {warmup_steps}"
            )
        self.decay = decay
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.train_steps = train_steps

    def __call__(self, step):
        step_num = ops.cast(step, "float32") + 1.0
        rising = step_num / self.warmup_steps
        falling = 1.0
        if self.decay == "linear" and self.train_steps:
            end = self.train_steps + 1
            falling = ops.maximum(end - step_num, 0.0) / (end - self.warmup_steps)
        elif self.decay == "inverse_square_root":
            falling = self.warmup_steps**0.5 * ops.rsqrt(step_num)
        return self.peak * ops.minimum(rising, falling)

    def get_config(self):
        return {
            "decay": self.decay,
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "train_steps": self.train_steps,
        }
