"""Loss and batch format for Keras' `compile` and `fit`: (x, y, sample weights).

    model.compile(
        keras.optimizers.Adam(
            WarmupInverseSquareRoot(d_model=512, warmup_steps=4000),
            beta_2=0.98,
            epsilon=1e-9,
        ),
        loss=LabelSmoothedCrossEntropy(0.1),
    )
    model.fit(batches.map(fit_arguments))

Shapes: B rows of a batch, T target length, V vocabulary size.
"""

import keras
from keras import ops

from t2t_keras.typing import (
    ALIGNMENT,
    DECODER_LOSS_WEIGHTS,
    DECODER_TARGET_TOKENS,
    Batch,
    Tensor,
)


@keras.saving.register_keras_serializable(package="t2t_keras")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy with label smoothing (section 5.4), from logits.

    The true token has probability 1 - epsilon, each of the others epsilon / (V - 1):
    the loss of `train` (ADR 0003), which also computes it without keeping all logits in
    memory. Softmax and loss are float32 whatever `dtype` and Keras' floatx are: Keras
    casts y_true to the dtype of a loss, and bfloat16 holds no id above 256 exactly.

    The default reduction is the mean over real tokens. Under a distribution strategy
    Keras takes that mean on each replica and then the mean of the replicas, which
    weights tokens of short batches too heavily; `train` divides once (ADR 0005).

    Args:
        label_smoothing: Epsilon, in [0, 1). The paper uses 0.1.
        reduction: As `keras.losses.Loss` has it.
        **kwargs: Passed on to `keras.losses.Loss`.

    Call args:
        y_true: [B, T] int token ids.
        y_pred: [B, T, V] float logits.
        sample_weight: [B, T] float, 1 for real tokens and 0 for padding.

    Raises:
        ValueError: If `label_smoothing` is outside [0, 1).

    >>> loss = LabelSmoothedCrossEntropy(0.1)
    >>> round(float(loss([[2, 1]], ops.zeros((1, 2, 4)), [[1.0, 0.0]])), 4)
    1.3863
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        reduction: str = "mean_with_sample_weight",
        **kwargs,
    ):
        kwargs.setdefault("name", "label_smoothed_cross_entropy")
        super().__init__(reduction=reduction, **{**kwargs, "dtype": "float32"})
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                f"label_smoothing must be in [0, 1). Received: {label_smoothing}"
            )
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        off_value = self.label_smoothing / (y_pred.shape[-1] - 1)
        on_minus_off = 1.0 - self.label_smoothing - off_value
        log_probs_BTV = ops.log_softmax(ops.cast(y_pred, "float32"), axis=-1)
        tokens_BT1 = ops.expand_dims(ops.cast(y_true, "int32"), axis=-1)
        true_BT = ops.take_along_axis(log_probs_BTV, tokens_BT1, axis=-1)[..., 0]
        sum_BT = ops.sum(log_probs_BTV, axis=-1)
        return -on_minus_off * true_BT - off_value * sum_BT

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def fit_arguments(batch: Batch) -> tuple[Batch, Tensor, Tensor]:
    """Returns x, y and sample weights of a batch, as `keras.Model.fit` takes them.

    Args:
        batch: Features that `batching.check_batch` accepts, packed or not.

    Returns:
        `(x, y, sample_weight)`: the features that the model reads, the target tokens
        [B, T] int32, and their weights [B, T] float32, 0 for padding. `fit` has no
        guided alignment, whose feature is left out.
    """
    x = {name: feature for name, feature in batch.items() if name != ALIGNMENT}
    y = x.pop(DECODER_TARGET_TOKENS)
    return x, y, x.pop(DECODER_LOSS_WEIGHTS)
