"""Writes the model as a SavedModel of ids, as `python -m t2t_keras.export` does."""

import argparse

import tensorflow as tf

from benchmarks.decoding import measured
from benchmarks.decoding.write import built
from t2t_keras import experiment, signature
from t2t_keras.decoding.settings import BeamSearchSettings


def main() -> None:
    """Writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--xla", default="off")
    given = parser.parse_args()
    model = built(given.precision)
    settings = BeamSearchSettings(measured.BEAM, measured.ALPHA, n_best=1)
    ids = tf.TensorSpec([None, None], tf.int32, name=signature.INPUT_IDS)

    @tf.function(input_signature=[ids], jit_compile=given.xla == "on" or None)
    def translate_ids(input_ids):
        found = experiment.search_translations(model, input_ids, settings, 0)
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


if __name__ == "__main__":
    main()
