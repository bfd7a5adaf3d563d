"""Fake model in a SavedModel of TensorFlow's own ops, with the signature of exports."""

from pathlib import Path

import tensorflow as tf


class Shouting(tf.Module):
    """Fake model: upper case, scored by length; texts above 9 bytes are cut."""

    def __init__(self, score=lambda length: tf.cast(length, tf.float32) / 8):
        super().__init__()
        text = tf.TensorSpec([None], tf.string, name="text")
        self.score = score
        self.translate = tf.function(self._translate, input_signature=[text])

    def _translate(self, text):
        length = tf.strings.length(text)
        return {
            "translation": tf.strings.upper(text),
            "score": self.score(length),
            "truncated": length > 9,
        }


def save_model(module, directory) -> Path:
    tf.saved_model.save(
        module, directory, signatures={"serving_default": module.translate}
    )
    return directory
