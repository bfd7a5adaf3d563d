"""Log probabilities of target tokens (teacher forcing), for scoring translations.

Shapes: B batch, S source length, T target length, D model width, V vocabulary,
R rows computed at a time.
"""

import tensorflow as tf

from t2t_keras.model.transformer import Transformer
from t2t_keras.text.padding import shift_right
from t2t_keras.typing import DECODER_INPUT_TOKENS, ENCODER_INPUT_TOKENS, Tensor

# R, the number of positions whose logits are in memory at a time. With 37,000 subwords
# they take 80 MB; those of 32 long sentences would take gigabytes.
ROWS_AT_A_TIME = 512


def target_log_probs(
    model: Transformer,
    source: Tensor,
    target: Tensor,
    rows_at_a_time: int = ROWS_AT_A_TIME,
) -> Tensor:
    """Returns the log probability of each target token after those before it.

    Args:
        model: Built.
        source: [B, S] int32, each row ended by EOS and padded with 0.
        target: [B, T] int32, likewise.
        rows_at_a_time: R, at least 1.

    Returns:
        [B, T] float32, natural logs over the whole vocabulary, softmax in float32;
        0 at padding.
    """
    batch = {
        ENCODER_INPUT_TOKENS: source,
        DECODER_INPUT_TOKENS: shift_right(target),
    }
    hidden_BTD = model.hidden_states(batch)
    width = hidden_BTD.shape[-1]
    positions = tf.size(target)
    missing = -positions % rows_at_a_time
    hidden = tf.pad(tf.reshape(hidden_BTD, [-1, width]), [[0, missing], [0, 0]])
    target_X = tf.pad(tf.reshape(target, [-1]), [[0, missing]])

    def score_block(args: tuple[Tensor, Tensor]) -> Tensor:
        hidden_RD, target_R = args
        logits_RV = model.embedding.logits(hidden_RD[None])[0]
        logits_RV = tf.cast(logits_RV, tf.float32)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(target_R, logits_RV)

    log_probs = tf.map_fn(
        score_block,
        (
            tf.reshape(hidden, [-1, rows_at_a_time, width]),
            tf.reshape(target_X, [-1, rows_at_a_time]),
        ),
        parallel_iterations=1,
        fn_output_signature=tf.TensorSpec([rows_at_a_time], tf.float32),
    )
    log_probs = tf.reshape(log_probs, [-1])[:positions]
    log_probs_BT = tf.reshape(log_probs, tf.shape(target))
    return tf.where(target == 0, 0.0, log_probs_BT)
