"""Adam optimizer for summed gradients (section 5.3), and moving averages of weights.

Loss scaling for float16; exponential moving average (EMA) of the weights.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.typing import Tensor

# First and least value of the loss scale for float16 mixed precision. The loss is a sum
# over tokens, so the scale is smaller than usual for means.
_INITIAL_LOSS_SCALE = 2.0**10
_MIN_LOSS_SCALE = 2.0**-14
_GROWTH_INTERVAL = 2_000


@keras.saving.register_keras_serializable(package="t2t_keras")
class SummedGradientAdam(keras.optimizers.Adam):
    """Adam on gradients already summed over replicas, which can skip an update.

    Keras' optimizers sum gradients over replicas themselves. These gradients are summed
    by the caller, who needs their norm too; so each replica updates its own copy of the
    weights with the same numbers, by TensorFlow's fused operation (ADR 0010).

    Epsilon is added to the root of the second moment before its bias correction, as in
    TensorFlow, Keras and Tensor2Tensor: to sqrt(v), and not, as in Algorithm 1 of the
    Adam paper, to sqrt(v / (1 - beta_2^t)). At step t it acts like an epsilon of
    epsilon / sqrt(1 - beta_2^t) there, seven times as large at step 1.

    A skipped update changes no bit of weights and moments, even if its gradients are
    NaN. It needs no conditional in the graph: with both betas 1 and a rate of 0 the
    same operation changes nothing.

    Args:
        dynamic_loss_scale: Whether gradients are those of a scaled loss, as float16
            needs: the scale halves when they overflow, and doubles after 2,000 steps
            without an overflow.
        **kwargs: Passed on to `keras.optimizers.Adam`.
    """

    def __init__(self, *, dynamic_loss_scale: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.dynamic_loss_scale = dynamic_loss_scale

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the state: moments, counts, the loss scale."""
        if self.built:
            return
        super().build(list(variables))

        def add_count(name: str, initial: float = 0, dtype: str = "int"):
            return self.add_variable(
                (), keras.initializers.Constant(initial), dtype, name=name
            )

        # Bias correction counts the updates that were applied, the schedule all.
        self.applied = add_count("applied")
        if self.dynamic_loss_scale:
            self.loss_scale = add_count("loss_scale", _INITIAL_LOSS_SCALE, "float32")
            self.good_steps = add_count("good_steps")

    def apply_summed(
        self,
        gradients: Sequence[Tensor],
        divisor: Tensor,
        *,
        finite: Tensor,
        counts: Tensor,
    ) -> Tensor:
        """Updates the weights on this replica; returns whether it did, a bool scalar.

        Arguments must be the same on all replicas, or their weights would differ.

        Args:
            gradients: One for each variable that the optimizer was built on, summed
                over replicas.
            divisor: float32 scalar, positive; the sum divided by it is the mean.
            finite: bool scalar, False to skip the update.
            counts: bool scalar, whether it counts as a step at all; False to run the
                computation without an effect, to compile it.
        """
        applies = tf.logical_and(finite, counts)
        self._update_weights(gradients, divisor, applies)
        if self.dynamic_loss_scale:
            self._update_loss_scale(finite, counts)
        _assign_add(self.applied, tf.cast(applies, tf.int64))
        _assign_add(self.iterations, tf.cast(counts, self.iterations.dtype))
        return applies

    def apply(self, grads, trainable_variables=None):
        """Makes Keras' own update, of `fit` and of other backends than TensorFlow."""
        super().apply(grads, trainable_variables)
        self.applied.assign_add(1)

    def _update_weights(
        self, gradients: Sequence[Tensor], divisor: Tensor, applies: Tensor
    ) -> None:
        enabled = tf.cast(applies, tf.float32)
        factor = tf.where(applies, 1.0 / divisor, 0.0)
        step = tf.cast(self.applied.value + 1, tf.float32)
        settings = {
            "beta1_power": tf.pow(self.beta_1, step),
            "beta2_power": tf.pow(self.beta_2, step),
            "lr": tf.cast(self.learning_rate, tf.float32) * enabled,
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
                # 0 in a skipped update, even where the gradient is NaN.
                grad=tf.math.multiply_no_nan(gradient, factor),
                **settings,
            )

    def _update_loss_scale(self, finite: Tensor, counts: Tensor) -> None:
        scale, good = self.loss_scale.value, self.good_steps.value + 1
        grows = good >= _GROWTH_INTERVAL
        larger = tf.where(grows, 2.0 * scale, scale)
        smaller = tf.maximum(0.5 * scale, _MIN_LOSS_SCALE)
        new_scale = tf.where(finite, larger, smaller)
        _assign_add(self.loss_scale, tf.where(counts, new_scale - scale, 0.0))
        new_good = tf.where(finite & ~grows, good, 0)
        _assign_add(self.good_steps, tf.where(counts, new_good - good + 1, 0))

    def moments(self) -> list[tuple[keras.Variable, keras.Variable, keras.Variable]]:
        """Returns each trainable weight with its first and second moment."""
        slots = (self._trainable_variables, self._momentums, self._velocities)
        return list(zip(*slots, strict=True))

    def can_reduce_loss_scale(self) -> Tensor:
        """Returns whether a smaller loss scale may avoid an overflow, bool scalar."""
        if not self.dynamic_loss_scale:
            return tf.constant(False)
        return self.loss_scale.value > _MIN_LOSS_SCALE

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments from which `from_config` builds the same optimizer."""
        return {**super().get_config(), "dynamic_loss_scale": self.dynamic_loss_scale}


def paper_adam(
    schedule: keras.optimizers.schedules.LearningRateSchedule,
    *,
    dynamic_loss_scale: bool = False,
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


class WeightAverages:
    """Exponential moving averages of weights: Polyak averaging with a decay.

    After update n, average += (1 - d) (weight - average) with
    d = min(decay, (1 + n) / (10 + n)): the decay grows at the start, so that the random
    initial weights are forgotten within some hundred updates. Marian and
    `tf.train.ExponentialMovingAverage` do the same.

    Built in the scope of a strategy, each replica has its own copy and updates it with
    the same numbers.

    Args:
        weights: Built.
        decay: In [0, 1); with 0.999 the average is over about 1,000 updates.
    """

    def __init__(self, weights: Sequence[keras.Variable], decay: float):
        self._weights = list(weights)
        self._decay = decay
        self.averages = [
            keras.Variable(
                keras.ops.convert_to_numpy(weight), trainable=False, name="average"
            )
            for weight in self._weights
        ]

    @property
    def by_weight(self) -> list[tuple[keras.Variable, keras.Variable]]:
        """Each weight with its average."""
        return list(zip(self._weights, self.averages, strict=True))

    def reset(self) -> None:
        """Sets the averages to the weights, after these were loaded."""
        for weight, average in self.by_weight:
            average.assign(weight)

    def update(self, updates: Tensor, applies: Tensor) -> None:
        """Updates the averages on this replica, after an update of the weights.

        Args:
            updates: int64 scalar, number of updates of the weights so far.
            applies: bool scalar, False to change nothing, if the update was skipped.
        """
        n = tf.cast(updates, tf.float32)
        decay = tf.minimum(self._decay, (1.0 + n) / (10.0 + n))
        rate = tf.where(applies, 1.0 - decay, 0.0)
        for weight, average in self.by_weight:
            change = rate * (tf.identity(weight.value) - tf.identity(average.value))
            _assign_add(average, change)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Exchanges weights and averages for the time of a `with` block."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for weight, average in self.by_weight:
            values = [tf.identity(each.value) for each in (weight, average)]
            weight.assign(values[1])
            average.assign(values[0])


def _assign_add(variable: keras.Variable, value: Tensor) -> None:
    """Adds to this replica's own copy, without synchronizing the replicas."""
    tf.raw_ops.AssignAddVariableOp(resource=variable.value.handle, value=value)
