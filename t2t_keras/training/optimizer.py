"""Adam with the paper's settings, fed with sums (section 5.3)."""

import keras

from t2t_keras.training.schedule import WarmupInverseSquareRoot
from t2t_keras.typing import Tensor


class SummedGradientAdam(keras.optimizers.Adam):
    """Adam whose gradients are already summed over replicas.

    Keras' optimizers add gradients up themselves when they are called in a replica.
    Ours come summed and divided, because their norm is wanted too: adding up twice
    would cost a second all-reduce and scale them by the number of replicas.
    """

    def _all_reduce_sum_gradients(
        self, grads_and_vars: list[tuple[Tensor, Tensor]]
    ) -> list[tuple[Tensor, Tensor]]:
        return grads_and_vars


def paper_adam(schedule: WarmupInverseSquareRoot) -> SummedGradientAdam:
    """Returns Adam with beta_1 0.9, beta_2 0.98 and epsilon 1e-9 on a schedule."""
    return SummedGradientAdam(
        learning_rate=schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9, name="adam"
    )
