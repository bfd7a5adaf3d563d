"""Averages of the weights over updates: exponential (EMA), and schedule-free."""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from t2t_keras.training.optimizer import (
    SummedGradientScheduleFreeAdamW,
    add_on_replica,
    assign_on_replica,
)
from t2t_keras.typing import Tensor


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
            add_on_replica(average, change)

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


class ScheduleFreeAverages(WeightAverages):
    """The weights x of a schedule-free optimizer, from its y and z.

    Args:
        optimizer: Built.
    """

    def __init__(self, optimizer: SummedGradientScheduleFreeAdamW):
        self._sequences = optimizer.sequences()
        self._beta = optimizer.beta_1
        super().__init__([weight for weight, _ in self._sequences], decay=0.0)

    def update(self, updates: Tensor, applies: Tensor) -> None:
        """Computes the averages on this replica, after an update of the weights."""
        del updates
        for (y, z), x in zip(self._sequences, self.averages, strict=True):
            y, z, old = (tf.identity(each.value) for each in (y, z, x))
            new = (y - (1.0 - self._beta) * z) / self._beta
            assign_on_replica(x, tf.where(applies, new, old))
