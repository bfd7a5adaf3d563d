"""Cross-entropy loss with label smoothing (section 5.4), computed in chunks of tokens.

A batch of 25,000 tokens has 925 million logits over the paper's 37,000 words: 3.7 GB
in float32, and two or three times that while their gradient is computed. The loss is
the last thing the model computes, so the gradient of a few tokens is known as soon as
their logits are. Both are computed together, chunk by chunk, and the logits of a chunk
are freed before the next chunk.

Shapes: N tokens of a batch, C tokens of a chunk, D model width, V vocabulary size.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.training.devices import choices_for
from t2t_keras.typing import Tensor


class LossSums(NamedTuple):
    """Sums over tokens, never means.

    Replicas and micro-batches hold different numbers of tokens. The caller adds their
    sums and divides once; a mean of means would weight short batches too heavily
    (ADR 0005).

    Attributes:
        loss_sum: float32 scalar, the smoothed loss in nats.
        log_loss_sum: float32 scalar, -log p of the true tokens, without smoothing;
            perplexity is computed from it.
        token_count: float32 scalar, number of tokens.
    """

    loss_sum: Tensor
    log_loss_sum: Tensor
    token_count: Tensor


class _TokenParts(NamedTuple):
    """Values computed from the logits of some tokens."""

    normalizer: Tensor
    """[N] float32, log-sum-exp of a token's logits."""
    true_logit: Tensor
    """[N] float32, logit of the true word."""
    grad_hidden: Tensor
    """[N, D], gradient of a token's scaled loss."""
    divergence: Any = ()
    """[N] float32, of the distribution of a token from that of the other row of its
    pair; () without pairs."""


class _Options(NamedTuple):
    """Target distribution q of a token, and how to compute its loss."""

    off_value: float
    """q of each word but the true one."""
    on_minus_off: float
    """How much larger q of the true word is."""
    max_rows: int
    """Maximum number of tokens whose logits are in memory at a time."""
    compiled: bool
    """Whether XLA compiles the computation."""
    consistency: float
    """Weight of the divergence between the two rows of a pair; 0 without pairs."""


class _Projection(NamedTuple):
    """Output projection: logits are hidden @ matrix.T + bias."""

    matrix: Tensor
    """[V, D] in the dtype of the hidden states."""
    bias: Tensor | None
    """[V] float32."""


def label_smoothed_cross_entropy(  # noqa: PLR0913 - what it computes, and how
    hidden: Tensor,
    embeddings: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    label_smoothing: float,
    output_bias: Tensor | None = None,
    consistency: float = 0.0,
    gradient_scale: Tensor | float | None = 1.0,
    logits_at_once: int = choices_for("cpu").logits_at_once,
    compiled: bool = False,
) -> LossSums:
    """Returns the loss summed over tokens, and the number of tokens.

    Logits are `hidden @ embeddings.T + output_bias`. The target distribution gives
    `1 - label_smoothing` to the true token and divides `label_smoothing` evenly among
    the V - 1 others, as Tensor2Tensor does (ADR 0003). Tensor2Tensor also subtracts
    the entropy of that distribution, a constant without a gradient; this function does
    not. Softmax and sums are float32.

    Differentiable with respect to `hidden`, `embeddings` and `output_bias`, through
    `loss_sum` alone, and once: the forward pass computes the gradient.

    Args:
        hidden: [..., D] float, the decoder's output.
        embeddings: [V, D] float32.
        targets: [...] int token ids. Padding has a valid id too (0).
        weights: [...] float, 1 where a token counts, 0 at padding.
        label_smoothing: In [0, 1). The paper uses 0.1.
        output_bias: [V] float32. Default: none, as in the paper.
        consistency: Weight, in the loss of a token, of the Kullback-Leibler divergence
            of its distribution p from that of the same token in the other row of a
            pair, sum_v p_v (log p_v - log q_v). Rows 0 and 1 of the first axis of
            `hidden` are a pair, as are 2 and 3, and so on. 0 for none.
        gradient_scale: Factor on the gradient before it is rounded to the dtype of
            `hidden`: float16's loss scale. The sums are not scaled. None for no
            gradient, and a third of the work.
        logits_at_once: Maximum number of logits in memory at a time. Default: that for
            CPUs.
        compiled: Whether XLA compiles the function. The result is the same, bit for
            bit; how the gradient is computed is faster with XLA or without.

    Returns:
        The sums. For a batch of padding only, all are 0: the loss is not NaN.

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
    if consistency:
        hidden, targets, weights = (
            _pair_tokens(each) for each in (hidden, targets, weights)
        )
    hidden_ND = tf.reshape(hidden, [-1, hidden.shape[-1]])
    weights_N = tf.reshape(tf.cast(weights, tf.float32), [-1])
    vocabulary_size = embeddings.shape[0]
    off_value = label_smoothing / (vocabulary_size - 1)
    options = _Options(
        off_value=off_value,
        on_minus_off=1.0 - label_smoothing - off_value,
        max_rows=max(1, logits_at_once // vocabulary_size),
        compiled=compiled,
        consistency=consistency,
    )

    def sums_and_gradients(hidden_ND: Tensor, *projection: Tensor) -> Any:
        return _sums_and_gradients(
            hidden_ND,
            projection,
            tf.reshape(tf.cast(targets, tf.int32), [-1]),
            weights_N,
            gradient_scale,
            options,
        )

    @tf.custom_gradient
    def differentiable(hidden_ND: Tensor, *projection: Tensor) -> Any:
        sums, grad_hidden, grad_projection = sums_and_gradients(hidden_ND, *projection)

        def gradient(grad_loss_sum: Tensor, _: Tensor) -> tuple[Tensor, ...]:
            return (
                grad_hidden * tf.cast(grad_loss_sum, grad_hidden.dtype),
                *(part * grad_loss_sum for part in grad_projection),
            )

        return sums, gradient

    projection = (embeddings,) if output_bias is None else (embeddings, output_bias)
    if gradient_scale is None:
        (loss_sum, log_loss_sum), *_ = sums_and_gradients(hidden_ND, *projection)
    else:
        loss_sum, log_loss_sum = differentiable(hidden_ND, *projection)
    return LossSums(loss_sum, log_loss_sum, tf.reduce_sum(weights_N))


def alignment_cross_entropy(attention: Tensor, alignment: Tensor) -> Tensor:
    """Returns the loss of guided alignment summed over target tokens, float32 scalar.

    For each linked target token, the cross-entropy in nats between its attention and
    the uniform distribution over the source tokens that it is linked to (Garg et al.
    2019). Tokens without a link add nothing. An attention below 1e-30
    counts as that, and has no gradient.

    Args:
        attention: [B, T, S] float32, the attention of each target token.
        alignment: [B, T, S] uint8, 1 at links.

    >>> attention = tf.constant([[[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]])
    >>> alignment = tf.constant([[[0, 1, 1], [0, 0, 0]]], tf.uint8)
    >>> round(float(alignment_cross_entropy(attention, alignment)), 4)  # log 4
    1.3863
    """
    links_BTS = tf.cast(alignment, tf.float32)
    counts_BT1 = tf.reduce_sum(links_BTS, axis=-1, keepdims=True)
    shares_BTS = links_BTS / tf.maximum(counts_BT1, 1.0)
    # Attention can underflow to 0, whose log would be infinite.
    logs_BTS = tf.math.log(tf.maximum(attention, 1e-30))
    return -tf.reduce_sum(shares_BTS * logs_BTS)


def _sums_and_gradients(
    hidden_ND: Tensor,
    projection: Sequence[Tensor],
    targets_N: Tensor,
    weights_N: Tensor,
    gradient_scale: Tensor | float | None,
    options: _Options,
) -> tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, ...]]:
    """Returns both losses' sums, and the gradients of the smoothed loss.

    The gradients are those by `hidden_ND`, [N, D], and by each part of `projection`:
    the embeddings [V, D] and, if there is one, the bias [V].
    """
    embeddings_VD, *biases = projection
    bias_V = biases[0] if biases else None
    projection_VD = tf.cast(embeddings_VD, hidden_ND.dtype)  # once, not in every chunk
    embedding_sum_D = tf.reduce_sum(tf.cast(projection_VD, tf.float32), axis=0)
    scales_N = None if gradient_scale is None else weights_N * gradient_scale
    parts, grad_projection = _compute_in_chunks(
        hidden_ND,
        _Projection(projection_VD, bias_V),
        targets_N,
        scales_N,
        options,
    )
    hidden_float_ND = tf.cast(hidden_ND, tf.float32)
    log_loss_N = parts.normalizer - parts.true_logit
    # sum_v q_v (normalizer - logit_v).
    logit_sum_N = tf.linalg.matvec(hidden_float_ND, embedding_sum_D)
    if bias_V is not None:
        logit_sum_N += tf.reduce_sum(bias_V)
    sum_over_vocabulary_N = parts.normalizer * embeddings_VD.shape[0] - logit_sum_N
    loss_N = (
        options.on_minus_off * log_loss_N + options.off_value * sum_over_vocabulary_N
    )
    if options.consistency:
        loss_N += options.consistency * parts.divergence
    sums = tf.reduce_sum(loss_N * weights_N), tf.reduce_sum(log_loss_N * weights_N)
    return sums, parts.grad_hidden, grad_projection


def _compute_in_chunks(
    hidden_ND: Tensor,
    projection: _Projection,
    targets_N: Tensor,
    scales_N: Tensor | None,
    options: _Options,
) -> tuple[_TokenParts, tuple[Tensor, ...]]:
    """Returns token parts, and gradients with respect to the output projection.

    Args:
        hidden_ND: The decoder's output.
        projection: The embeddings in the same dtype, and the bias.
        targets_N: Ids of the true words.
        scales_N: Factor on each token's gradient; None for no gradient, and gradients
            of width 0.
        options: Target distribution, and size of the chunks.
    """
    tokens = tf.shape(hidden_ND)[0]
    width = 0 if scales_N is None else hidden_ND.shape[1]
    # The fewest chunks, equal in size: padding costs as much as tokens.
    count = tf.maximum(1, -(-tokens // options.max_rows))
    rows = -(-tokens // count)
    if options.consistency:
        rows += rows % 2  # a pair is in one chunk

    def split(tensor: Tensor) -> Tensor:
        missing = [[0, count * rows - tokens]] + [[0, 0]] * (len(tensor.shape) - 1)
        shape = tf.concat([[count, rows], tensor.shape[1:]], axis=0)
        return tf.ensure_shape(
            tf.reshape(tf.pad(tensor, missing), shape), [None, None, *tensor.shape[1:]]
        )

    hidden_KCD, targets_KC = split(hidden_ND), split(targets_N)
    scales_KC = None if scales_N is None else split(scales_N)

    def add_chunk(i: Tensor, gradients: tuple[Tensor, ...], arrays: Any) -> Any:
        parts, chunk_gradients = _compute_chunk(
            hidden_KCD[i],
            projection,
            targets_KC[i],
            None if scales_KC is None else scales_KC[i],
            options,
        )
        arrays = tf.nest.map_structure(
            lambda array, part: array.write(i, part), arrays, parts
        )
        pairs = zip(gradients, chunk_gradients, strict=True)
        return i + 1, tuple(total + part for total, part in pairs), arrays

    def make_array(dtype: tf.DType, shape: list[int]) -> tf.TensorArray:
        return tf.TensorArray(dtype, size=count, element_shape=[None, *shape])

    empty_arrays = _TokenParts(
        make_array(tf.float32, []),
        make_array(tf.float32, []),
        make_array(hidden_ND.dtype, [width]),
        make_array(tf.float32, []) if options.consistency else (),
    )
    vocabulary_size = projection.matrix.shape[0]
    zeros = (tf.zeros([vocabulary_size, width]),)
    if projection.bias is not None:
        zeros += (tf.zeros([vocabulary_size]),)
    _, gradients, arrays = tf.while_loop(
        lambda i, *_: i < count, add_chunk, (tf.constant(0), zeros, empty_arrays)
    )
    return tf.nest.map_structure(
        lambda array: array.concat()[:tokens], arrays
    ), gradients


def _compute_chunk(
    hidden_CD: Tensor,
    projection: _Projection,
    targets_C: Tensor,
    scales_C: Tensor | None,
    options: _Options,
) -> tuple[_TokenParts, tuple[Tensor, ...]]:
    """Returns `_compute_in_chunks` of one chunk."""
    logits_CV = tf.matmul(hidden_CD, projection.matrix, transpose_b=True)
    # float32: a softmax over 32k tokens needs differences that bfloat16 rounds off.
    logits_CV = tf.cast(logits_CV, tf.float32)
    if projection.bias is not None:
        logits_CV += projection.bias
    peak_C = tf.reduce_max(logits_CV, axis=-1)
    exponentials_CV = tf.exp(logits_CV - peak_C[:, None])
    normalizer_C = peak_C + tf.math.log(tf.reduce_sum(exponentials_CV, axis=-1))
    true_logit_C = tf.gather(logits_CV, targets_C, batch_dims=1)
    if scales_C is None:
        # Evaluation has no pairs.
        parts = _TokenParts(normalizer_C, true_logit_C, hidden_CD[:, :0])
        zeros = (tf.zeros([projection.matrix.shape[0], 0]),)
        if projection.bias is not None:
            zeros += (tf.zeros_like(projection.bias),)
        return parts, zeros
    # The scale is applied inside the exponential; a scale of 0 gives exp(-inf).
    shift_C = normalizer_C - tf.math.log(scales_C)
    off_C, on_C = options.off_value * scales_C, options.on_minus_off * scales_C
    gradient_CV = tf.exp(logits_CV - shift_C[:, None]) - off_C[:, None]
    # Before rounding: for a word that is predicted well, the small difference matters.
    if options.compiled:
        # Fused, the whole gradient is one pass over the logits. A scatter would write
        # it in float32 first, four more passes: on a GPU the time is that of passes.
        is_true_CV = tf.range(gradient_CV.shape[1]) == targets_C[:, None]
        gradient_CV = tf.where(is_true_CV, gradient_CV - on_C[:, None], gradient_CV)
    else:
        true_words = tf.stack([tf.range(tf.shape(targets_C)[0]), targets_C], axis=1)
        gradient_CV = tf.tensor_scatter_nd_sub(gradient_CV, true_words, on_C)
    divergence_C: Any = ()
    if options.consistency:
        divergence_C, by_logits_CV = _divergence(logits_CV - normalizer_C[:, None])
        gradient_CV += (options.consistency * scales_C)[:, None] * by_logits_CV
    # Before rounding, too.
    grad_bias = () if projection.bias is None else (tf.reduce_sum(gradient_CV, axis=0),)
    gradient_CV = tf.cast(gradient_CV, hidden_CD.dtype)
    grad_embeddings_VD = tf.matmul(gradient_CV, hidden_CD, transpose_a=True)
    grad_hidden_CD = tf.matmul(gradient_CV, projection.matrix)
    return (
        _TokenParts(normalizer_C, true_logit_C, grad_hidden_CD, divergence_C),
        (tf.cast(grad_embeddings_VD, tf.float32), *grad_bias),
    )


def _divergence(log_probs_CV: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the divergence from the partner, and the gradient of both of a pair.

    Rows 0 and 1 are a pair, as are 2 and 3, and so on.

    Returns:
        [C], the divergence KL(p | q) of a row's distribution p from its partner's q;
        and [C, V], the gradient of KL(p | q) + KL(q | p) by the row's logits: it is
        p (log p - log q - KL(p | q)), plus p - q.
    """
    shape = tf.shape(log_probs_CV)
    pairs = tf.reshape(log_probs_CV, [-1, 2, shape[1]])
    others_CV = tf.reshape(pairs[:, ::-1], shape)
    probs_CV = tf.exp(log_probs_CV)
    logs_CV = log_probs_CV - others_CV
    divergence_C = tf.reduce_sum(probs_CV * logs_CV, axis=-1)
    gradient_CV = probs_CV * (logs_CV - divergence_C[:, None] + 1.0)
    return divergence_C, gradient_CV - tf.exp(others_CV)


def _pair_tokens(rows: Tensor) -> Tensor:
    """Returns [B / 2, T, 2, ...] of rows [B, T, ...], the tokens of a pair together."""
    shape = tf.shape(rows)
    pairs = tf.reshape(rows, tf.concat([[shape[0] // 2, 2], shape[1:]], axis=0))
    paired = tf.transpose(pairs, [0, 2, 1, *range(3, len(rows.shape) + 1)])
    return tf.ensure_shape(paired, [None, None, 2, *rows.shape[2:]])
