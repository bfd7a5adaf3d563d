"""Writes the model as a SavedModel of ids, as `python -m t2t_keras.export` does."""

import argparse
import inspect

import tensorflow as tf

from benchmarks.decoding import measured
from benchmarks.decoding.write import built
from t2t_keras import experiment, signature
from t2t_keras.decoding.settings import BeamSearchSettings

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

    @tf.function(input_signature=[ids], jit_compile=given.xla == "on" or None)
    def translate_ids(input_ids):
        if given.real_lengths:
            # As many tokens as the sentence's own source has, EOS counted.
            found = experiment.search_translations(model, input_ids, settings, 0)
        else:
            found = experiment.search_translations(
                model, input_ids, settings, EXTRA, **as_long_as_all(input_ids)
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


def as_long_as_all(input_ids: tf.Tensor) -> dict:
    """Returns what limits every output to the same length."""
    if "options" not in inspect.signature(experiment.search_translations).parameters:
        return {}
    from t2t_keras.decoding.settings import RowOptions

    zeros_B = tf.zeros_like(input_ids[:, 0])
    options = RowOptions(
        zeros_B + measured.BEAM,
        tf.cast(zeros_B, tf.float32) + measured.ALPHA,
        zeros_B + measured.LENGTH,
    )
    return {"options": options}


if __name__ == "__main__":
    main()
