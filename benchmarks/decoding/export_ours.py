"""Writes the model as a SavedModel of ids, as `python -m t2t_keras.export` does."""

import argparse

import tensorflow as tf

from benchmarks.decoding import measured
from benchmarks.decoding.write import built
from t2t_keras import experiment, signature
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions

# The shortest source has 20 tokens, and every output is to have 25.
EXTRA = 5


def main() -> None:
    """Writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--xla", default="off")
    parser.add_argument("--real_lengths", action="store_true")
    given = parser.parse_args()
    model = built(given.precision)
    settings = BeamSearchSettings(measured.BEAM, measured.ALPHA, n_best=1)
    ids = tf.TensorSpec([None, None], tf.int32, name=signature.INPUT_IDS)

    compiled = given.xla == "on"

    @tf.function(input_signature=[ids], jit_compile=compiled or None)
    def translate_ids(input_ids):
        found = experiment.search_translations(
            model,
            input_ids,
            settings,
            # As many tokens as a sentence's own source has, or 25 of each.
            0 if given.real_lengths else EXTRA,
            None if given.real_lengths else limited(input_ids),
            growing=not compiled,
        )
        return {
            signature.OUTPUT_IDS: found.tokens[:, 0],
            signature.OUTPUT_LENGTH: found.lengths[:, 0],
            signature.SCORE: found.scores[:, 0],
        }

    root = tf.Module()
    root.weights = [weight.value for weight in model.weights]
    root.translate_ids = translate_ids
    tf.saved_model.save(
        root, given.to, signatures={signature.TRANSLATE_IDS: translate_ids}
    )


def limited(input_ids: tf.Tensor) -> RowOptions:
    """Returns what makes every output as long as all others."""
    zeros_B = tf.zeros_like(input_ids[:, 0])
    return RowOptions(
        beam_sizes=zeros_B + measured.BEAM,
        alphas=tf.cast(zeros_B, tf.float32) + measured.ALPHA,
        max_lengths=zeros_B + measured.LENGTH,
    )


if __name__ == "__main__":
    main()
