"""Adam with the paper's settings, fed with sums (section 5.3)."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.typing import Tensor

# Where float16's loss scale starts and how far down it goes. The loss is a sum over
# tokens, so the scale lies below what is usual for means.
_FIRST_LOSS_SCALE = 2.0**10
_LEAST_LOSS_SCALE = 2.0**-14
_STEPS_TO_GROW = 2_000


@keras.saving.register_keras_serializable(package="t2t_keras")
class SummedGradientAdam(keras.optimizers.Adam):
    """Adam whose gradients are summed already, and that may leave an update out.

    Keras' optimizers add gradients up over replicas themselves. Ours come summed,
    because their norm is wanted too; so each replica updates its own copy, all with
    the same numbers, by TensorFlow's fused operation (ADR 0010).

    Epsilon is added to the root of the second moment before its bias correction, as
    TensorFlow, Keras and Tensor2Tensor have it: to sqrt(v), and not, as Algorithm 1 of
    the Adam paper, to sqrt(v / (1 - beta_2^t)). At step t it thus acts like an epsilon
    of epsilon / sqrt(1 - beta_2^t) there, seven times as large at step 1.

    An update that does not apply leaves weights and moments as they are to the last
    bit, whatever is in its gradients. No conditional is traced for that: with both
    betas 1 and a rate of 0 the same operation changes nothing.

    Args:
        dynamic_loss_scale: Whether gradients are of a scaled loss, as float16 needs:
            the scale halves when they overflow and doubles after 2,000 steps when
            they did not.
        **kwargs: Passed on to `keras.optimizers.Adam`.
    """

    def __init__(self, *, dynamic_loss_scale: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.dynamic_loss_scale = dynamic_loss_scale

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes the state: moments, counts, the loss scale."""
        if self.built:
            return
        super().build(list(variables))

        def count(name: str, initial: float = 0, dtype: str = "int64"):
            return self.add_variable(
                (), keras.initializers.Constant(initial), dtype, name=name
            )

        # Bias correction goes by updates that were applied, the schedule by all.
        self.applied = count("applied")
        if self.dynamic_loss_scale:
            self.loss_scale = count("loss_scale", _FIRST_LOSS_SCALE, "float32")
            self.good_steps = count("good_steps")

    def apply_summed(
        self,
        gradients: Sequence[Tensor],
        divisor: Tensor,
        *,
        finite: Tensor,
        counts: Tensor,
    ) -> None:
        """Makes an update on this replica; every replica is given the same.

        Args:
            gradients: One for each variable that the optimizer was built on, summed
                over replicas.
            divisor: float32 scalar, positive, what makes a mean of the sum.
            finite: bool scalar, whether the update applies.
            counts: bool scalar, whether it counts as a step at all; False to go
                through the motions of one, as before the first.
        """
        applies = tf.logical_and(finite, counts)
        self._update_weights(gradients, divisor, applies)
        if self.dynamic_loss_scale:
            self._update_loss_scale(finite, counts)
        _assign_add(self.applied, tf.cast(applies, tf.int64))
        _assign_add(self.iterations, tf.cast(counts, self.iterations.dtype))

    def _update_weights(
        self, gradients: Sequence[Tensor], divisor: Tensor, applies: Tensor
    ) -> None:
        share = tf.cast(applies, tf.float32)
        factor = tf.where(applies, 1.0 / divisor, 0.0)
        step = tf.cast(self.applied.value + 1, tf.float32)
        settings = {
            "beta1_power": tf.pow(self.beta_1, step),
            "beta2_power": tf.pow(self.beta_2, step),
            "lr": tf.cast(self.learning_rate, tf.float32) * share,
            "beta1": tf.where(applies, self.beta_1, 1.0),
            "beta2": tf.where(applies, self.beta_2, 1.0),
            "epsilon": self.epsilon,
        }
        slots: Any = zip(
            gradients,
            self._trainable_variables,
            self._momentums,
            self._velocities,
            strict=True,
        )
        for gradient, weight, momentum, velocity in slots:
            tf.raw_ops.ResourceApplyAdam(
                var=weight.value.handle,
                m=momentum.value.handle,
                v=velocity.value.handle,
                # 0 where nothing applies, even where the gradient is not a number.
                grad=tf.math.multiply_no_nan(gradient, factor),
                **settings,
            )

    def _update_loss_scale(self, finite: Tensor, counts: Tensor) -> None:
        scale, good = self.loss_scale.value, self.good_steps.value + 1
        grows = good >= _STEPS_TO_GROW
        grown = tf.where(grows, 2.0 * scale, scale)
        halved = tf.maximum(0.5 * scale, _LEAST_LOSS_SCALE)
        after = tf.where(finite, grown, halved)
        _assign_add(self.loss_scale, tf.where(counts, after - scale, 0.0))
        since = tf.where(finite & ~grows, good, 0)
        _assign_add(self.good_steps, tf.where(counts, since - good + 1, 0))

    def can_scale_less(self) -> Tensor:
        """Returns whether an overflow may be the loss scale's fault, bool scalar."""
        if not self.dynamic_loss_scale:
            return tf.constant(False)
        return self.loss_scale.value > _LEAST_LOSS_SCALE

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` makes the same optimizer from."""
        return {**super().get_config(), "dynamic_loss_scale": self.dynamic_loss_scale}


def paper_adam(
    schedule: WarmupInverseSquareRoot, *, dynamic_loss_scale: bool = False
) -> SummedGradientAdam:
    """Returns Adam with beta_1 0.9, beta_2 0.98 and epsilon 1e-9 on a schedule."""
    return SummedGradientAdam(
        learning_rate=schedule,
        beta_1=0.9,
        beta_2=0.98,
        epsilon=1e-9,
        dynamic_loss_scale=dynamic_loss_scale,
        name="adam",
    )


def _assign_add(variable: keras.Variable, value: Tensor) -> None:
    """Adds to this replica's own copy, without a word to the other replicas."""
    tf.raw_ops.AssignAddVariableOp(resource=variable.value.handle, value=value)
