"""Toy models, small enough to be differentiated by hand, and random batches."""

import keras
import numpy as np
from keras import ops

from t2t_keras.model.dropout import Dropout, fold_in
from t2t_keras.typing import Batch


class Bigram(keras.Model):
    """Bigram model: the logits of a token are the table row of the previous token.

    The gradient of the loss for that row is softmax minus target distribution.
    """

    def __init__(self, vocabulary_size: int):
        super().__init__(name="bigram")
        self.table = self.add_weight(
            name="table",
            shape=(vocabulary_size, vocabulary_size),
            initializer=keras.initializers.RandomNormal(stddev=1.0),
        )
        self.built = True

    @property
    def output_embeddings(self):
        return np.eye(self.table.shape[0], dtype="float32")

    def hidden_states(self, inputs, dropout_keys=None):
        return ops.take(self.table, inputs["decoder_input_tokens"], axis=0)


class ToyTranslator(keras.Model):
    """Toy translator: a bag of source words and the previous token, with two dropouts.

    It has the parts that are difficult for replicas and XLA: keyed dropout, padding,
    and an embedding whose gradient is a sum of slices and a dense tensor.

    Attributes:
        traces: Number of Python calls of `hidden_states`, that is, of traces.
    """

    def __init__(self, vocabulary_size: int, width: int, dropout_rate: float):
        super().__init__(name="toy")
        self.traces = 0
        normal = keras.initializers.RandomNormal(stddev=0.7)
        self.table = self.add_weight(
            name="table", shape=(vocabulary_size, width), initializer=normal
        )
        self.inner = self.add_weight(
            name="inner", shape=(width, width), initializer=normal
        )
        self.dropout = Dropout(dropout_rate, name="dropout")
        self.built = True

    @property
    def output_embeddings(self):
        return self.table

    def call(self, inputs):
        return ops.matmul(self.hidden_states(inputs), ops.transpose(self.table))

    def hidden_states(self, inputs, dropout_keys=None):
        self.traces += 1
        source = inputs["encoder_input_tokens"]
        real_BS1 = ops.cast(ops.not_equal(source, 0), "float32")[:, :, None]
        bag_BD = ops.sum(ops.take(self.table, source, axis=0) * real_BS1, axis=1)
        before_BTD = ops.take(self.table, inputs["decoder_input_tokens"], axis=0)
        hidden_BTD = before_BTD + bag_BD[:, None]
        hidden_BTD = self.dropout(hidden_BTD, dropout_keys=fold_in(dropout_keys, 0))
        hidden_BTD = ops.tanh(ops.matmul(hidden_BTD, self.inner))
        return self.dropout(hidden_BTD, dropout_keys=fold_in(dropout_keys, 1))


def random_batch(rows: int, length: int, vocabulary_size: int, seed: int) -> Batch:
    """Random batch whose rows get shorter: the first is full, the last all padding."""
    rng = np.random.default_rng(seed)
    target_lengths = np.linspace(length, 0, rows).astype(int)
    source_lengths = np.maximum(target_lengths - 1, 0)
    source, target = (
        rng.integers(1, vocabulary_size, (rows, length))
        * (np.arange(length) < lengths[:, None])
        for lengths in (source_lengths, target_lengths)
    )
    shifted = np.zeros_like(target)
    shifted[:, 1:] = target[:, :-1]
    return {
        "encoder_input_tokens": source.astype("int32"),
        "decoder_input_tokens": shifted.astype("int32"),
        "decoder_target_tokens": target.astype("int32"),
        "decoder_loss_weights": (target != 0).astype("float32"),
    }
