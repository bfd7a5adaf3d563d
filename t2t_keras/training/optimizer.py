"""Optimizers for summed gradients: Adam (section 5.3), and others of Keras.

Loss scaling for float16; decoupled weight decay.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.typing import Tensor

# First and least value of the loss scale for float16 mixed precision. The loss is a sum
# over tokens, so the scale is smaller than usual for means.
_INITIAL_LOSS_SCALE = 2.0**10
_MIN_LOSS_SCALE = 2.0**-14
_GROWTH_INTERVAL = 2_000


class SummedGradients(keras.optimizers.Optimizer):
    """Mixin of an optimizer on gradients already summed over replicas.

    Keras' optimizers sum gradients over replicas themselves. These gradients are summed
    by the caller, who needs their norm too; so each replica updates its own copy of the
    weights with the same numbers (ADR 0010, ADR 0038).

    A skipped update changes no bit of weights and moments, even if its gradients are
    NaN. The schedule counts all updates, the optimizer those that were applied.

    Weight decay is decoupled from the gradient, as in AdamW (Loshchilov & Hutter 2019,
    arXiv 1711.05101): a weight is multiplied by 1 - rate * decay. Biases and gains,
    which have one axis, do not decay.

    Args:
        dynamic_loss_scale: Whether gradients are those of a scaled loss, as float16
            needs: the scale halves when they overflow, and doubles after 2,000 steps
            without an overflow.
        jit_compile: Whether XLA compiles the update.
        **kwargs: Passed on to the optimizer of Keras.
    """

    def __init__(
        self, *, dynamic_loss_scale: bool = False, jit_compile: bool = False, **kwargs
    ):
        super().__init__(**kwargs)
        self.dynamic_loss_scale = dynamic_loss_scale
        self.jit_compile = jit_compile
        self._keys: Mapping[int, Any] = MappingProxyType({})
        self._compute = tf.function(
            self._compute_values, jit_compile=jit_compile or None, autograph=False
        )

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the state: moments, counts, the loss scale."""
        if self.built:
            return
        vectors = [each for each in variables if len(each.shape) < 2]
        self.exclude_from_weight_decay(var_list=vectors)
        keys = {id(each): self._var_key(each) for each in variables}
        self._keys = MappingProxyType(keys)
        super().build(list(variables))
        # As a tuple, which Keras does not track: its variables are tracked already.
        self._slots = tuple(v for v in self.variables if v is not self.iterations)

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
        add_on_replica(self.applied, tf.cast(applies, tf.int64))
        add_on_replica(self.iterations, tf.cast(counts, self.iterations.dtype))
        return applies

    def apply(self, grads, trainable_variables=None):
        """Makes Keras' own update, of `fit` and of other backends than TensorFlow."""
        super().apply(grads, trainable_variables)
        self.applied.assign_add(1)

    def _update_weights(
        self, gradients: Sequence[Tensor], divisor: Tensor, applies: Tensor
    ) -> None:
        """Makes the update of Keras' optimizer."""
        variables = [*self._trainable_variables, *self._slots]
        rate = tf.cast(self.learning_rate, tf.float32)
        values = self._compute(
            [tf.identity(variable.value) for variable in variables],
            [tf.convert_to_tensor(gradient) for gradient in gradients],
            (divisor, rate, tf.identity(self.applied.value), applies),
        )
        for variable, value in zip(variables, values, strict=True):
            assign_on_replica(variable, value)

    def _compute_values(
        self,
        values: list[Tensor],
        gradients: list[Tensor],
        numbers: tuple[Tensor, Tensor, Tensor, Tensor],
    ) -> list[Tensor]:
        """Returns the weights and slots after an update, as tensors for XLA.

        Args:
            values: Those before it.
            gradients: One for each weight.
            numbers: Divisor of the gradients, learning rate, number of updates so far,
                and whether this one applies.
        """
        divisor, rate, applied, applies = numbers
        weights = self._trainable_variables
        variables = [*weights, *self._slots]
        state: list[tuple[keras.Variable, Tensor]] = [
            *zip(variables, values, strict=True),
            (self.iterations, applied),
        ]
        with keras.StatelessScope(state_mapping=state) as scope:
            for gradient, weight in zip(gradients, weights, strict=True):
                if self.weight_decay and self._use_weight_decay(weight):
                    self._decay(weight, rate * self.weight_decay)
                self.update_step(gradient / divisor, weight, rate)
            after = [scope.get_current_value(variable) for variable in variables]
        pairs = zip(values, after, strict=True)
        return [tf.where(applies, new, old) for old, new in pairs]

    def _decay(self, weight: keras.Variable, fraction: Tensor) -> None:
        weight.assign(weight * (1.0 - fraction))

    def _update_loss_scale(self, finite: Tensor, counts: Tensor) -> None:
        scale, good = self.loss_scale.value, self.good_steps.value + 1
        grows = good >= _GROWTH_INTERVAL
        larger = tf.where(grows, 2.0 * scale, scale)
        smaller = tf.maximum(0.5 * scale, _MIN_LOSS_SCALE)
        new_scale = tf.where(finite, larger, smaller)
        add_on_replica(self.loss_scale, tf.where(counts, new_scale - scale, 0.0))
        new_good = tf.where(finite & ~grows, good, 0)
        add_on_replica(self.good_steps, tf.where(counts, new_good - good + 1, 0))

    def can_reduce_loss_scale(self) -> Tensor:
        """Returns whether a smaller loss scale may avoid an overflow, bool scalar."""
        if not self.dynamic_loss_scale:
            return tf.constant(False)
        return self.loss_scale.value > _MIN_LOSS_SCALE

    def weights_loaded(self) -> None:
        """Adapts the state to weights that were loaded after `build`."""

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments from which `from_config` builds the same optimizer."""
        names = ("dynamic_loss_scale", "jit_compile")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    # In the scope of `_compute_values` a variable's value is a tensor. Keras expects
    # variables of TensorFlow in these methods.

    def _var_key(self, variable: Any) -> Any:
        return self._keys.get(id(variable)) or super()._var_key(variable)

    def assign(self, variable: Any, value: Tensor) -> None:
        """Sets a variable."""
        if _is_changed_in_place(variable):
            super().assign(variable, value)
        else:
            variable.assign(value)

    def assign_add(self, variable: Any, value: Tensor) -> None:
        """Adds to a variable."""
        self.assign(variable, variable + value)

    def assign_sub(self, variable: Any, value: Tensor) -> None:
        """Subtracts from a variable."""
        self.assign(variable, variable - value)


@keras.saving.register_keras_serializable(package="t2t_keras")
class SummedGradientAdam(SummedGradients, keras.optimizers.Adam):
    """Adam, which updates each weight by TensorFlow's fused operation.

    Epsilon is added to the root of the second moment before its bias correction, as in
    TensorFlow, Keras and Tensor2Tensor: to sqrt(v), and not, as in Algorithm 1 of the
    Adam paper, to sqrt(v / (1 - beta_2^t)). At step t it acts like an epsilon of
    epsilon / sqrt(1 - beta_2^t) there, seven times as large at step 1.

    A skipped update needs no conditional in the graph: with both betas 1 and a rate of
    0 the same operation changes nothing.
    """

    def _update_weights(
        self, gradients: Sequence[Tensor], divisor: Tensor, applies: Tensor
    ) -> None:
        enabled = tf.cast(applies, tf.float32)
        factor = tf.where(applies, 1.0 / divisor, 0.0)
        step = tf.cast(self.applied.value + 1, tf.float32)
        rate = tf.cast(self.learning_rate, tf.float32) * enabled
        settings = {
            "beta1_power": tf.pow(self.beta_1, step),
            "beta2_power": tf.pow(self.beta_2, step),
            "lr": rate,
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
            if self.weight_decay and self._use_weight_decay(weight):
                kept = 1.0 - rate * self.weight_decay
                assign_on_replica(weight, tf.identity(weight.value) * kept)
            tf.raw_ops.ResourceApplyAdam(
                var=weight.value.handle,
                m=momentum.value.handle,
                v=velocity.value.handle,
                # 0 in a skipped update, even where the gradient is NaN.
                grad=tf.math.multiply_no_nan(gradient, factor),
                **settings,
            )

    def moments(self) -> list[tuple[keras.Variable, keras.Variable, keras.Variable]]:
        """Returns each trainable weight with its first and second moment."""
        slots = (self._trainable_variables, self._momentums, self._velocities)
        return list(zip(*slots, strict=True))


@keras.saving.register_keras_serializable(package="t2t_keras")
class SummedGradientMuon(SummedGradients, keras.optimizers.Muon):
    """Muon for matrices, Adam for embeddings, positions, biases and gains.

    A matrix moves by its momentum with all singular values near 1 (Jordan et al. 2024),
    times 0.2 times the root of its larger side, which makes updates as large as Adam's
    (Liu et al. 2025, arXiv 2502.16982): so one learning rate serves both.
    """


@keras.saving.register_keras_serializable(package="t2t_keras")
class SummedGradientScheduleFreeAdamW(
    SummedGradients, keras.optimizers.ScheduleFreeAdamW
):
    """Schedule-free AdamW (Defazio et al. 2024, arXiv 2405.15682).

    Gradients are those at the weights y = (1 - beta_1) z + beta_1 x, where z moves by
    the gradients and x is the mean of all z so far. Models to evaluate and to use have
    the weights x, which `ScheduleFreeAverages` holds.

    Keras' own update, of `fit`, is refused: on TensorFlow 2.21 that of Keras 3.15 takes
    z after the update for that before it, and its weight decay moves x away from the
    mean (ADR 0038).
    """

    def apply(self, grads, trainable_variables=None):
        """Raises `NotImplementedError`; see the class."""
        raise NotImplementedError(
            "Keras' own update of ScheduleFreeAdamW differs from its paper. Train with "
            "t2t_keras.train --optimizer=schedule_free_adamw, or call apply_summed."
        )

    def weights_loaded(self) -> None:
        """Starts all three sequences at the weights that were loaded."""
        for weight, z in self.sequences():
            z.assign(weight)

    def sequences(self) -> list[tuple[keras.Variable, keras.Variable]]:
        """Returns each trainable weight y with its z."""
        return list(zip(self._trainable_variables, self._momentums, strict=True))

    def _decay(self, weight: keras.Variable, fraction: Tensor) -> None:
        """Lets z decay by a fraction of y, as the paper has it, and leaves x."""
        z = next(z for y, z in self.sequences() if y is weight)
        change = fraction * weight
        z.assign(z - change)
        weight.assign(weight - (1.0 - self.beta_1) * change)


def _papers_constants(prefix: str = "") -> dict[str, Any]:
    """Returns section 5.3's constants of Adam, as arguments with a prefix."""
    return {f"{prefix}beta_1": 0.9, f"{prefix}beta_2": 0.98, "epsilon": 1e-9}


def paper_adam(
    schedule: keras.optimizers.schedules.LearningRateSchedule, **settings: Any
) -> SummedGradientAdam:
    """Returns Adam with beta_1 0.9, beta_2 0.98 and epsilon 1e-9 on a schedule.

    `settings` are arguments of `SummedGradients`, and `weight_decay`.
    """
    return SummedGradientAdam(
        learning_rate=schedule, name="adam", **_papers_constants(), **settings
    )


def muon(
    schedule: keras.optimizers.schedules.LearningRateSchedule,
    *,
    weight_decay: float | None = None,
    **settings: Any,
) -> SummedGradientMuon:
    """Returns Muon with momentum 0.95, and the paper's Adam for what is no matrix."""
    return SummedGradientMuon(
        learning_rate=schedule,
        weight_decay=weight_decay,
        adam_weight_decay=weight_decay,
        # Rows that are looked up, like those of embeddings.
        exclude_layers=["positions"],
        name="muon",
        **_papers_constants("adam_"),
        **settings,
    )


def schedule_free_adamw(
    schedule: keras.optimizers.schedules.LearningRateSchedule, **settings: Any
) -> SummedGradientScheduleFreeAdamW:
    """Returns schedule-free AdamW with the paper's betas and epsilon."""
    return SummedGradientScheduleFreeAdamW(
        learning_rate=schedule,
        name="schedule_free_adamw",
        **_papers_constants(),
        **settings,
    )


OPTIMIZERS: Mapping[str, Callable[..., SummedGradients]] = MappingProxyType(
    {
        "adam": paper_adam,
        "adamw": paper_adam,
        "schedule_free_adamw": schedule_free_adamw,
        "muon": muon,
    }
)
"""Functions that return the optimizers of --optimizer for a schedule."""


def _is_changed_in_place(variable: Any) -> bool:
    value = variable.value if isinstance(variable, keras.Variable) else variable
    return isinstance(value, tf.Variable)


def assign_on_replica(variable: keras.Variable, value: Tensor) -> None:
    """Sets this replica's own copy, without synchronizing the replicas."""
    tf.raw_ops.AssignVariableOp(resource=variable.value.handle, value=value)


def add_on_replica(variable: keras.Variable, value: Tensor) -> None:
    """Adds to this replica's own copy, without synchronizing the replicas."""
    tf.raw_ops.AssignAddVariableOp(resource=variable.value.handle, value=value)
