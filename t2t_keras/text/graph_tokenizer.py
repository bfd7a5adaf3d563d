"""SentencePiece tokenizer in the graph, with a model that outlives resets."""

import hashlib

import tensorflow as tf
import tensorflow_text
from tensorflow_text.python.ops.sentencepiece_tokenizer import (
    gen_sentencepiece_tokenizer,
)

from t2t_keras.files.quiet import quiet_start_up


class GraphTokenizer(tensorflow_text.SentencepieceTokenizer):
    """TF-Text's tokenizer over a model that outlives TensorFlow's kernel cache.

    TF-Text lets an eager kernel own the loaded model. Setting the global seed
    (`tf.random.set_seed`, `keras.utils.set_random_seed`) clears the cache that
    holds the kernel, and every later call, as well as every function and
    dataset traced before, fails with "Resource … does not exist". Under a
    shared name the device owns the model and keeps it.

    Args:
        model_proto: A SentencePiece model's bytes.
        out_type: tf.int32 for ids, tf.string for pieces.
    """

    def __init__(self, model_proto: bytes, out_type: tf.DType = tf.int32):
        # Each load prints a line about the model's normalization.
        with quiet_start_up():
            super().__init__(model=model_proto, out_type=out_type)
            self._model_resource = _NamedModel(model_proto)


class _NamedModel(tf.saved_model.experimental.TrackableResource):
    """A loaded model whose name is its hash: equal models share it, others not."""

    def __init__(self, model_proto: bytes):
        super().__init__()
        self._model_proto = model_proto
        self._shared_name = "sentencepiece_" + hashlib.sha256(model_proto).hexdigest()
        _ = self.resource_handle  # reading it loads the model

    def _create_resource(self):
        return gen_sentencepiece_tokenizer.sentencepiece_op(
            model=self._model_proto, shared_name=self._shared_name
        )
