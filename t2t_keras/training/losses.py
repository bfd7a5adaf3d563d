"""What is minimized: label-smoothed cross-entropy (section 5.4).

Shapes: B batch, T target length, V vocabulary size.
"""

from typing import NamedTuple

from keras import ops

from t2t_keras.typing import Tensor


class LossSums(NamedTuple):
    """Sums over tokens, never means.

    Replicas and micro-batches hold different numbers of tokens. Whoever has all of
    them adds the sums up and divides once; a mean of means would weight short
    batches too heavily (ADR 0005).

    Attributes:
        loss_sum: float32 scalar, the smoothed loss in nats.
        log_loss_sum: float32 scalar, -log p of the true tokens, without smoothing:
            what perplexity is made of.
        token_count: float32 scalar, how many tokens were summed.
    """

    loss_sum: Tensor
    log_loss_sum: Tensor
    token_count: Tensor


def label_smoothed_cross_entropy(
    logits: Tensor, targets: Tensor, weights: Tensor, *, label_smoothing: float
) -> LossSums:
    """Returns the loss summed over tokens, and the number of tokens.

    The target distribution gives `1 - label_smoothing` to the true token and shares
    `label_smoothing` evenly among the V - 1 others, as Tensor2Tensor does (ADR
    0003). Tensor2Tensor also subtracts the entropy of that distribution, a constant
    without a gradient, which is not done here.

    Args:
        logits: [B, T, V] float of any width; computed on as float32.
        targets: [B, T] int token ids. Padding holds a valid id too (0).
        weights: [B, T] float: 1 where a token counts, 0 at padding.
        label_smoothing: In [0, 1). The paper uses 0.1.

    Returns:
        The sums. On a batch of padding only all are 0: the loss is not NaN.

    Raises:
        ValueError: If `label_smoothing` is outside [0, 1).

    Uniform logits cost log V per token whatever the smoothing. Here that is twice
    log 4, and the padded third token adds nothing:

    >>> sums = label_smoothed_cross_entropy(
    ...     logits=ops.zeros((1, 3, 4)),
    ...     targets=ops.array([[2, 1, 0]]),
    ...     weights=ops.array([[1.0, 1.0, 0.0]]),
    ...     label_smoothing=0.1,
    ... )
    >>> round(float(sums.loss_sum), 4), float(sums.token_count)
    (2.7726, 2.0)
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(
            f"label_smoothing must be in [0, 1). Received: {label_smoothing}"
        )
    # float32: a softmax over 32k tokens lives on differences bfloat16 rounds off.
    logits = ops.cast(logits, "float32")
    true_BT = ops.take_along_axis(logits, ops.expand_dims(targets, -1), axis=-1)[..., 0]
    normalizer_BT = ops.logsumexp(logits, axis=-1)
    log_loss_BT = normalizer_BT - true_BT
    # The smoothed loss is sum_v q_v (normalizer - logit_v). With q = share for all
    # but the true token this needs one more sum over V, and no log_probs.
    share = label_smoothing / (logits.shape[-1] - 1)
    mean_part_BT = normalizer_BT * logits.shape[-1] - ops.sum(logits, axis=-1)
    confidence = 1.0 - label_smoothing - share
    loss_BT = confidence * log_loss_BT + share * mean_part_BT
    weights = ops.cast(weights, "float32")
    return LossSums(
        ops.sum(loss_BT * weights), ops.sum(log_loss_BT * weights), ops.sum(weights)
    )
