"""Label-smoothed cross-entropy (section 5.4), computed some rows at a time.

A batch of 25,000 tokens has 925 million logits over the paper's 37,000 words: 3.7 GB
in float32, and twice or three times that while their gradient is made. The loss is
the last thing the model computes, so the gradient of a few rows is known as soon as
their logits are. Here both are made together, some rows at a time, and the logits
are gone before the next rows come.

Shapes: N tokens of a batch, C tokens of a chunk, D model width, V vocabulary size.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.typing import Tensor

# 256 MiB of float32: enough rows for a fast product, little beside the model.
_LOGITS_AT_ONCE = 2**26


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


class _TokenParts(NamedTuple):
    """What is kept of the logits of some tokens."""

    normalizer: Tensor
    """[N] float32, the log of the sum of their exponentials."""
    true_logit: Tensor
    """[N] float32, of the true word."""
    by_hidden: Tensor
    """[N, D], the gradient of a token's scaled loss."""


def label_smoothed_cross_entropy(
    hidden: Tensor,
    embeddings: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    label_smoothing: float,
    gradient_scale: Tensor | float | None = 1.0,
    logits_at_once: int = _LOGITS_AT_ONCE,
) -> LossSums:
    """Returns the loss summed over tokens, and the number of tokens.

    Logits are `hidden @ embeddings.T`. The target distribution gives
    `1 - label_smoothing` to the true token and shares `label_smoothing` evenly among
    the V - 1 others, as Tensor2Tensor does (ADR 0003). Tensor2Tensor also subtracts
    the entropy of that distribution, a constant without a gradient, which is not done
    here. Softmax and sums are float32.

    Differentiable by `hidden` and `embeddings`, through `loss_sum` alone, and once:
    the gradient is made on the way forward.

    Args:
        hidden: [..., D] float, the decoder's output.
        embeddings: [V, D] float32.
        targets: [...] int token ids. Padding holds a valid id too (0).
        weights: [...] float, 1 where a token counts, 0 at padding.
        label_smoothing: In [0, 1). The paper uses 0.1.
        gradient_scale: What the gradient is multiplied by, before it is rounded to
            the dtype of `hidden`: float16's loss scale. The sums are not scaled.
            None for no gradient, and a third of the work.
        logits_at_once: How many logits may be in memory at a time.

    Returns:
        The sums. On a batch of padding only all are 0: the loss is not NaN.

    Raises:
        ValueError: If `label_smoothing` is outside [0, 1).

    Uniform logits cost log V per token whatever the smoothing. Here that is twice
    log 4, and the padded third token adds nothing:

    >>> sums = label_smoothed_cross_entropy(
    ...     hidden=tf.zeros((1, 3, 2)),
    ...     embeddings=tf.ones((4, 2)),
    ...     targets=tf.constant([[2, 1, 0]]),
    ...     weights=tf.constant([[1.0, 1.0, 0.0]]),
    ...     label_smoothing=0.1,
    ... )
    >>> round(float(sums.loss_sum), 4), float(sums.token_count)
    (2.7726, 2.0)
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(
            f"label_smoothing must be in [0, 1). Received: {label_smoothing}"
        )
    hidden_ND = tf.reshape(hidden, [-1, hidden.shape[-1]])
    weights_N = tf.reshape(tf.cast(weights, tf.float32), [-1])

    def sums_and_gradients(hidden_ND: Tensor, embeddings_VD: Tensor) -> Any:
        return _sums_and_gradients(
            hidden_ND,
            embeddings_VD,
            tf.reshape(tf.cast(targets, tf.int32), [-1]),
            weights_N,
            label_smoothing,
            gradient_scale,
            logits_at_once,
        )

    @tf.custom_gradient
    def differentiable(hidden_ND: Tensor, embeddings_VD: Tensor) -> Any:
        sums, by_hidden, by_embeddings = sums_and_gradients(hidden_ND, embeddings_VD)

        def gradient(by_loss_sum: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
            return (
                by_hidden * tf.cast(by_loss_sum, by_hidden.dtype),
                by_embeddings * by_loss_sum,
            )

        return sums, gradient

    if gradient_scale is None:
        (loss_sum, log_loss_sum), *_ = sums_and_gradients(hidden_ND, embeddings)
    else:
        loss_sum, log_loss_sum = differentiable(hidden_ND, embeddings)
    return LossSums(loss_sum, log_loss_sum, tf.reduce_sum(weights_N))


def _sums_and_gradients(
    hidden_ND: Tensor,
    embeddings_VD: Tensor,
    targets_N: Tensor,
    weights_N: Tensor,
    label_smoothing: float,
    gradient_scale: Tensor | float | None,
    logits_at_once: int,
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """Returns the sums of both losses, and gradients of the first, [N, D], [V, D]."""
    vocabulary_size = embeddings_VD.shape[0]
    # q of all words but the true one, and how much more that has.
    share = label_smoothing / (vocabulary_size - 1)
    more = 1.0 - label_smoothing - share
    projection_VD = tf.cast(embeddings_VD, hidden_ND.dtype)  # once, not in every chunk
    embedding_sum_D = tf.reduce_sum(tf.cast(projection_VD, tf.float32), axis=0)
    scales_N = None if gradient_scale is None else weights_N * gradient_scale
    found, by_embeddings_VD = _parts_in_chunks(
        hidden_ND,
        projection_VD,
        targets_N,
        scales_N,
        (share, more),
        most_rows=max(1, logits_at_once // vocabulary_size),
    )
    hidden_float_ND = tf.cast(hidden_ND, tf.float32)
    log_loss_N = found.normalizer - found.true_logit
    # sum_v q_v (normalizer - logit_v).
    logit_sum_N = tf.linalg.matvec(hidden_float_ND, embedding_sum_D)
    of_all_N = found.normalizer * vocabulary_size - logit_sum_N
    loss_N = more * log_loss_N + share * of_all_N
    sums = tf.reduce_sum(loss_N * weights_N), tf.reduce_sum(log_loss_N * weights_N)
    return sums, found.by_hidden, by_embeddings_VD


def _parts_in_chunks(
    hidden_ND: Tensor,
    projection_VD: Tensor,
    targets_N: Tensor,
    scales_N: Tensor | None,
    wanted: tuple[float, float],
    *,
    most_rows: int,
) -> tuple[_TokenParts, Tensor]:
    """Returns each token's part, and the sum of theirs by the embeddings, [V, D].

    Args:
        hidden_ND: The decoder's output.
        projection_VD: The embeddings in the same dtype.
        targets_N: Of the true words.
        scales_N: What a token's gradient is multiplied by; None for no gradient,
            whose parts are then empty.
        wanted: q of all words but the true one, and how much more that has.
        most_rows: Most tokens whose logits are in memory at a time.
    """
    tokens = tf.shape(hidden_ND)[0]
    width = 0 if scales_N is None else hidden_ND.shape[1]
    # As few chunks as may be, all of a size: padding is computed like the rest.
    count = tf.maximum(1, -(-tokens // most_rows))
    rows = -(-tokens // count)

    def cut(tensor: Tensor) -> Tensor:
        missing = [[0, count * rows - tokens]] + [[0, 0]] * (len(tensor.shape) - 1)
        shape = tf.concat([[count, rows], tensor.shape[1:]], axis=0)
        return tf.ensure_shape(
            tf.reshape(tf.pad(tensor, missing), shape), [None, None, *tensor.shape[1:]]
        )

    hidden_KCD, targets_KC = cut(hidden_ND), cut(targets_N)
    scales_KC = None if scales_N is None else cut(scales_N)

    def add(i: Tensor, by_embeddings_VD: Tensor, kept: _TokenParts) -> Any:
        part, by_part_VD = _parts_of_chunk(
            hidden_KCD[i],
            projection_VD,
            targets_KC[i],
            None if scales_KC is None else scales_KC[i],
            *wanted,
        )
        kept = _TokenParts(*(a.write(i, b) for a, b in zip(kept, part, strict=True)))
        return i + 1, by_embeddings_VD + by_part_VD, kept

    def kept(dtype: tf.DType, shape: list[int]) -> tf.TensorArray:
        return tf.TensorArray(dtype, size=count, element_shape=[None, *shape])

    start = _TokenParts(
        kept(tf.float32, []), kept(tf.float32, []), kept(hidden_ND.dtype, [width])
    )
    nothing_VD = tf.zeros([projection_VD.shape[0], width])
    _, by_embeddings_VD, found = tf.while_loop(
        lambda i, *_: i < count, add, (tf.constant(0), nothing_VD, start)
    )
    return _TokenParts(*(part.concat()[:tokens] for part in found)), by_embeddings_VD


def _parts_of_chunk(
    hidden_CD: Tensor,
    projection_VD: Tensor,
    targets_C: Tensor,
    scales_C: Tensor | None,
    share: float,
    more: float,
) -> tuple[_TokenParts, Tensor]:
    logits_CV = tf.matmul(hidden_CD, projection_VD, transpose_b=True)
    # float32: a softmax over 32k tokens lives on differences bfloat16 rounds off.
    logits_CV = tf.cast(logits_CV, tf.float32)
    peak_C = tf.reduce_max(logits_CV, axis=-1)
    exponentials_CV = tf.exp(logits_CV - peak_C[:, None])
    normalizer_C = peak_C + tf.math.log(tf.reduce_sum(exponentials_CV, axis=-1))
    true_logit_C = tf.gather(logits_CV, targets_C, batch_dims=1)
    if scales_C is None:
        kept = _TokenParts(normalizer_C, true_logit_C, hidden_CD[:, :0])
        return kept, tf.zeros([projection_VD.shape[0], 0])
    # The scale within the exponential: of 0, it is exp(-inf).
    shift_C = normalizer_C - tf.math.log(scales_C)
    gradient_CV = tf.exp(logits_CV - shift_C[:, None]) - (share * scales_C)[:, None]
    # Before it is rounded: of a word that is known the small difference counts.
    places = tf.stack([tf.range(tf.shape(targets_C)[0]), targets_C], axis=1)
    gradient_CV = tf.tensor_scatter_nd_sub(gradient_CV, places, more * scales_C)
    gradient_CV = tf.cast(gradient_CV, hidden_CD.dtype)
    by_embeddings_VD = tf.matmul(gradient_CV, hidden_CD, transpose_a=True)
    return (
        _TokenParts(normalizer_C, true_logit_C, tf.matmul(gradient_CV, projection_VD)),
        tf.cast(by_embeddings_VD, tf.float32),
    )
