"""The loss over a large vocabulary without its logits in memory all at once.

A batch of 25,000 tokens has 925 million logits over the paper's 37,000 words: 3.7 GB
in float32, and twice or three times that while their gradient is made. The loss is
the last thing the model computes, so the gradient of a few rows is known as soon as
their logits are. Here both are made together, some rows at a time, and the logits
are gone before the next rows come.

Shapes: N tokens of a batch, C tokens of a chunk, D model width, V vocabulary size.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.training.losses import LossSums
from t2t_keras.typing import Tensor

# 256 MiB of float32: enough rows for a fast product, little beside the model.
_LOGITS_AT_ONCE = 2**26


class _Chunk(NamedTuple):
    """What some rows come to."""

    loss_sum: Tensor
    log_loss_sum: Tensor
    hidden_gradient: Tensor
    """[C, D], of `gradient_scale` times the loss."""
    embedding_gradient: Tensor
    """[V, D] float32, likewise."""


def chunked_cross_entropy(
    hidden: Tensor,
    embeddings: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    label_smoothing: float,
    gradient_scale: Tensor | float | None = 1.0,
    logits_at_once: int = _LOGITS_AT_ONCE,
) -> LossSums:
    """Returns `label_smoothed_cross_entropy` of `hidden @ embeddings.T`.

    Differentiable by `hidden` and `embeddings`, through `loss_sum` alone, and once:
    the gradient is made on the way forward.

    Args:
        hidden: [..., D] float, the decoder's output.
        embeddings: [V, D] float32.
        targets: [...] int token ids.
        weights: [...] float, 1 where a token counts, 0 at padding.
        label_smoothing: In [0, 1).
        gradient_scale: What the gradient is multiplied by, before it is rounded to
            the dtype of `hidden`: float16's loss scale. The sums are not scaled.
            None for no gradient, and a third of the work.
        logits_at_once: How many logits may be in memory at a time.
    """
    width = hidden.shape[-1]
    hidden_ND = tf.reshape(hidden, [-1, width])
    targets_N = tf.reshape(targets, [-1])
    weights_N = tf.reshape(tf.cast(weights, tf.float32), [-1])

    def chunks(hidden_ND: Tensor, embeddings_VD: Tensor) -> _Chunk:
        return _all_chunks(
            hidden_ND,
            embeddings_VD,
            targets_N,
            weights_N,
            label_smoothing,
            gradient_scale,
            logits_at_once,
        )

    @tf.custom_gradient
    def sums(hidden_ND: Tensor, embeddings_VD: Tensor) -> Any:
        chunk = chunks(hidden_ND, embeddings_VD)

        def gradient(by_loss_sum: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
            hidden_part = chunk.hidden_gradient
            return (
                hidden_part * tf.cast(by_loss_sum, hidden_part.dtype),
                chunk.embedding_gradient * by_loss_sum,
            )

        return (chunk.loss_sum, chunk.log_loss_sum), gradient

    if gradient_scale is None:
        loss_sum, log_loss_sum, *_ = chunks(hidden_ND, embeddings)
    else:
        loss_sum, log_loss_sum = sums(hidden_ND, embeddings)
    return LossSums(loss_sum, log_loss_sum, tf.reduce_sum(weights_N))


def _all_chunks(
    hidden_ND: Tensor,
    embeddings_VD: Tensor,
    targets_N: Tensor,
    weights_N: Tensor,
    label_smoothing: float,
    gradient_scale: Tensor | float | None,
    logits_at_once: int,
) -> _Chunk:
    vocabulary_size, width = embeddings_VD.shape
    tokens = tf.shape(hidden_ND)[0]
    rows = tf.minimum(max(1, logits_at_once // vocabulary_size), tokens)
    count = -(-tokens // tf.maximum(rows, 1))
    missing = count * rows - tokens
    hidden_KCD = tf.reshape(
        tf.pad(hidden_ND, [[0, missing], [0, 0]]), [count, rows, width]
    )
    targets_KC, weights_KC = (
        tf.reshape(tf.pad(vector, [[0, missing]]), [count, rows])
        for vector in (targets_N, weights_N)
    )
    # Once, not in every chunk.
    projection_VD = tf.cast(embeddings_VD, hidden_ND.dtype)

    def add(i: Tensor, sums: _Chunk, hidden_gradients: Any) -> Any:
        chunk = _one_chunk(
            hidden_KCD[i],
            projection_VD,
            targets_KC[i],
            weights_KC[i],
            label_smoothing,
            gradient_scale,
        )
        return (
            i + 1,
            _Chunk(
                sums.loss_sum + chunk.loss_sum,
                sums.log_loss_sum + chunk.log_loss_sum,
                sums.hidden_gradient,
                sums.embedding_gradient + chunk.embedding_gradient,
            ),
            hidden_gradients.write(i, chunk.hidden_gradient),
        )

    zero = tf.constant(0.0)
    start = _Chunk(zero, zero, zero, tf.zeros([vocabulary_size, width]))
    gradients = tf.TensorArray(hidden_ND.dtype, size=count, element_shape=[None, width])
    _, sums, gradients = tf.while_loop(
        lambda i, *_: i < count, add, (tf.constant(0), start, gradients)
    )
    hidden_gradient_ND = tf.reshape(gradients.stack(), [-1, width])[:tokens]
    return sums._replace(hidden_gradient=hidden_gradient_ND)


def _one_chunk(
    hidden_CD: Tensor,
    projection_VD: Tensor,
    targets_C: Tensor,
    weights_C: Tensor,
    label_smoothing: float,
    gradient_scale: Tensor | float | None,
) -> _Chunk:
    vocabulary_size = projection_VD.shape[0]
    logits_CV = tf.matmul(hidden_CD, projection_VD, transpose_b=True)
    # float32: a softmax over 32k tokens lives on differences bfloat16 rounds off.
    logits_CV = tf.cast(logits_CV, tf.float32)
    is_true_CV = tf.range(vocabulary_size)[None] == targets_C[:, None]
    normalizer_C = tf.reduce_logsumexp(logits_CV, axis=-1)
    true_C = tf.reduce_sum(tf.where(is_true_CV, logits_CV, 0.0), axis=-1)
    log_loss_C = normalizer_C - true_C
    # sum_v q_v (normalizer - logit_v), q being share everywhere but at the target.
    share = label_smoothing / (vocabulary_size - 1)
    confidence = 1.0 - label_smoothing - share
    mean_part_C = normalizer_C * vocabulary_size - tf.reduce_sum(logits_CV, axis=-1)
    loss_C = confidence * log_loss_C + share * mean_part_C
    sums = tf.reduce_sum(loss_C * weights_C), tf.reduce_sum(log_loss_C * weights_C)
    if gradient_scale is None:
        return _Chunk(*sums, tf.zeros_like(hidden_CD), tf.zeros(projection_VD.shape))
    # Softmax minus q.
    wanted_CV = tf.where(is_true_CV, confidence + share, share)
    gradient_CV = tf.exp(logits_CV - normalizer_C[:, None]) - wanted_CV
    gradient_CV *= (weights_C * gradient_scale)[:, None]
    gradient_CV = tf.cast(gradient_CV, hidden_CD.dtype)
    by_embedding_VD = tf.matmul(gradient_CV, hidden_CD, transpose_a=True)
    return _Chunk(
        *sums,
        tf.matmul(gradient_CV, projection_VD),
        tf.cast(by_embedding_VD, tf.float32),
    )
