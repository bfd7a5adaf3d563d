"""Label-smoothed cross-entropy as it is often written: all logits at once.

Both functions have the arguments and the result of `label_smoothed_cross_entropy`. They
are for float32 only: gradients are TensorFlow's, and `gradient_scale` is ignored.

Shapes: N tokens, D model width, V vocabulary.
"""

import tensorflow as tf

from t2t_keras.training.losses import LossSums
from t2t_keras.typing import Tensor


def at_once(
    hidden: Tensor,
    embeddings: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    label_smoothing: float,
    gradient_scale: Tensor | float | None = 1.0,
    output_bias: None = None,
) -> LossSums:
    """Returns the sums from normalizer, true and mean logit, without one-hot rows."""
    del gradient_scale, output_bias  # the paper's logits have no bias
    logits_NV, targets_N, weights_N = _flatten(hidden, embeddings, targets, weights)
    words = logits_NV.shape[-1]
    normalizer_N = tf.reduce_logsumexp(logits_NV, axis=-1)
    log_loss_N = normalizer_N - tf.gather(logits_NV, targets_N, batch_dims=1)
    sum_over_vocabulary_N = words * (normalizer_N - tf.reduce_mean(logits_NV, axis=-1))
    off_value = label_smoothing / (words - 1)
    loss_N = (
        1.0 - label_smoothing - off_value
    ) * log_loss_N + off_value * sum_over_vocabulary_N
    return _sums(loss_N, log_loss_N, weights_N)


def one_hot(
    hidden: Tensor,
    embeddings: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    label_smoothing: float,
    gradient_scale: Tensor | float | None = 1.0,
    output_bias: None = None,
) -> LossSums:
    """Returns the sums from log-softmax and smoothed one-hot targets [N, V]."""
    del gradient_scale, output_bias  # the paper's logits have no bias
    logits_NV, targets_N, weights_N = _flatten(hidden, embeddings, targets, weights)
    words = logits_NV.shape[-1]
    smoothed_NV = tf.one_hot(
        targets_N,
        words,
        on_value=1.0 - label_smoothing,
        off_value=label_smoothing / (words - 1),
    )
    log_probabilities_NV = tf.nn.log_softmax(logits_NV)
    loss_N = -tf.reduce_sum(smoothed_NV * log_probabilities_NV, axis=-1)
    log_loss_N = -tf.gather(log_probabilities_NV, targets_N, batch_dims=1)
    return _sums(loss_N, log_loss_N, weights_N)


def _flatten(
    hidden: Tensor, embeddings: Tensor, targets: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns logits [N, V], targets [N] and weights [N]."""
    hidden_ND = tf.reshape(hidden, [-1, hidden.shape[-1]])
    logits_NV = tf.matmul(hidden_ND, embeddings, transpose_b=True)
    return logits_NV, tf.reshape(targets, [-1]), tf.reshape(weights, [-1])


def _sums(loss_N: Tensor, log_loss_N: Tensor, weights_N: Tensor) -> LossSums:
    return LossSums(
        tf.reduce_sum(loss_N * weights_N),
        tf.reduce_sum(log_loss_N * weights_N),
        tf.reduce_sum(weights_N),
    )
