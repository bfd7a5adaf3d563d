"""Fake model with predictable answers, and signatures that fail in several ways.

Shapes: B batch, S positions.
"""

from pathlib import Path

import tensorflow as tf

TEXT = tf.TensorSpec([None], tf.string, name="text")


class FakeModel(tf.Module):
    """Model that prefixes each text with its version and scores it by its length."""

    def __init__(self, version: int):
        super().__init__()
        self.version = version
        # Read when a graph runs, so an export without its variables fails.
        self.weight = tf.Variable(0.5 * version)

    def translate(self, text):
        prefix = tf.strings.join([f"v{self.version}:", text])
        return {"translation": prefix, "score": self._score(text)}

    def _score(self, text):
        return self.weight * tf.cast(tf.strings.length(text), tf.float32)

    def with_options(self, text, beam_size, alpha):
        rows = tf.ones_like(self._score(text))
        return {
            "beam": rows * tf.cast(beam_size, tf.float32),
            "alpha": rows * alpha,
        }

    def busy(self, seconds):
        """Keeps a core busy for the maximum of [B] seconds."""
        end = tf.timestamp() + tf.cast(tf.reduce_max(seconds), tf.float64)
        turns = tf.while_loop(
            lambda turn: tf.timestamp() < end, lambda turn: turn + 1, [tf.constant(0)]
        )[0]
        return {"done": seconds + 0.0 * tf.cast(turns, tf.float32)}

    def wait(self, text):
        """Creates file TEXT.begun, for the first of [B] texts; waits for file TEXT."""

        def is_missing(turn: tf.Tensor) -> tf.Tensor:
            # The name depends on the turn, so that each turn looks again.
            nothing = tf.strings.substr(tf.strings.as_string(turn), 0, 0)
            return tf.size(tf.io.matching_files(text[0] + nothing)) == 0

        begun = tf.io.write_file(text[0] + ".begun", "")
        with tf.control_dependencies([begun]):
            start = tf.constant(0)
        turns = tf.while_loop(is_missing, lambda turn: turn + 1, [start])[0]
        with tf.control_dependencies([turns]):
            return {"translation": tf.strings.upper(text)}

    def picky(self, text):
        """Fails if any text is "poison"."""
        poison = tf.reduce_any(tf.equal(text, "poison"))
        check = tf.debugging.Assert(tf.logical_not(poison), ["poison is not food"])
        with tf.control_dependencies([check]):
            return {"translation": tf.strings.upper(text)}

    def picky_inside(self, text):
        """Does what `picky` does, in a function that TensorFlow does not inline."""
        attributes = {"_noinline": True}
        inner = tf.function(self.picky, experimental_attributes=attributes)
        return inner(text)

    def sums(self, ids):
        """Returns sums of [B, S] ids, and the number of rows in the batch."""
        rows = tf.shape(ids)[0]
        return {"sum": tf.reduce_sum(ids, axis=1), "rows": tf.fill([rows], rows)}

    def count(self, text):
        """Returns the number of rows as a scalar, which cannot be split by row."""
        return {"rows": tf.size(text)}

    def first(self, text):
        """Returns one row for any number of rows."""
        return {"one": text[:1]}

    def compiled(self, x):
        return {"y": tf.function(lambda x: 2.0 * x, jit_compile=True)(x)}


def save(base: Path, version: int) -> Path:
    """Saves a version below `base` and returns its directory."""
    model = FakeModel(version)
    floats = tf.TensorSpec([None], tf.float32)

    # Only a tensor as a default becomes a default of the signature.
    def with_options(text, beam_size=tf.constant(4), alpha=tf.constant(0.6)):  # noqa: B008
        return model.with_options(text, beam_size, alpha)

    beam_size = tf.TensorSpec([], tf.int32, name="beam_size")
    alpha = tf.TensorSpec([], tf.float32, name="alpha")
    signatures = {
        "serving_default": tf.function(model.translate, [TEXT]),
        "with_options": tf.function(with_options, [TEXT, beam_size, alpha]),
        "busy": tf.function(model.busy, [floats]),
        "wait": tf.function(model.wait, [TEXT]),
        "picky": tf.function(model.picky, [TEXT]),
        "picky_inside": tf.function(model.picky_inside, [TEXT]),
        "sums": tf.function(model.sums, [tf.TensorSpec([None, None], tf.int32)]),
        "count": tf.function(model.count, [TEXT]),
        "first": tf.function(model.first, [TEXT]),
        "compiled": tf.function(model.compiled, [floats]),
    }
    directory = base / str(version)
    tf.saved_model.save(model, str(directory), signatures=signatures)
    return directory
