"""A translator for those who tokenize themselves: ids in, ids out, core ops only.

It loads wherever TensorFlow is, without TensorFlow Text: in a process that imports
any op a file needs must be known, whichever signature uses it.

Shapes: B batch, S source length, L output length.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.serving import signature
from t2t_keras.serving.export import checked_inputs
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.serving.export.served_model import ServedModel
from t2t_keras.text.vocabulary import SubwordVocabulary
from t2t_keras.typing import Tensor

Outputs = Mapping[str, Tensor]


class IdsModule(tf.Module):
    """Variables, and the signatures that take ids.

    Args:
        model: What to serve.
        vocabulary: Of both languages.
        settings: How to search, where a request does not say.
        limits: On what a request may ask for.
    """

    def __init__(
        self,
        model: ServedModel,
        vocabulary: SubwordVocabulary,
        settings: BeamSearchSettings,
        limits: ServingLimits,
    ):
        super().__init__()
        self.weights = list(model.weights)
        self._model = model
        self._vocabulary = vocabulary
        self._settings = dataclasses.replace(settings, n_best=1)
        self._limits = limits
        # Several signatures search for one translation: it is traced and saved once.
        self._best = tf.function(
            lambda ids: model.search(ids, self._settings),
            autograph=False,
            input_signature=[tf.TensorSpec([None, None], tf.int32)],
        )
        ids = tf.TensorSpec([None, None], tf.int32, name=signature.INPUT_IDS)
        self.translate_ids = tf.function(
            self._translate_ids, autograph=False, input_signature=[ids]
        )
        found = tf.TensorSpec([None, None], tf.int32, name=signature.OUTPUT_IDS)
        self.detokenize = tf.function(
            self._detokenize, autograph=False, input_signature=[found]
        )

    def signatures(self) -> dict[str, Any]:
        """Returns the functions to save as signatures, by name."""
        return {
            signature.TRANSLATE: self.translate_ids,
            signature.TRANSLATE_IDS: self.translate_ids,
            signature.DETOKENIZE: self.detokenize,
        }

    def _translate_ids(self, input_ids: Tensor) -> Outputs:
        ids_BS, truncated_B = checked_inputs.ids(
            input_ids, self._vocabulary.size, self._limits.source_length
        )
        found = self._best(ids_BS)
        return {
            signature.OUTPUT_IDS: found.tokens[:, 0],
            signature.OUTPUT_LENGTH: found.lengths[:, 0],
            signature.SCORE: found.scores[:, 0],
            signature.TRUNCATED: truncated_B,
        }

    def _detokenize(self, output_ids: Tensor) -> Outputs:
        ids_BL, _ = checked_inputs.ids(
            output_ids, self._vocabulary.size, self._limits.target_length
        )
        return {signature.TRANSLATION: self._vocabulary.decode_in_graph(ids_BL)}
