"""Toy model whose answers depend on all its inputs and options in a simple way."""

import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.serving.export.ids_module import ServedModel
from t2t_keras.serving.export.limits import ServingLimits
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords

LIMITS = ServingLimits(
    source_length=12, target_length=15, attention_length=7, beam_size=6, n_best=3
)
SETTINGS = BeamSearchSettings(beam_size=4, alpha=0.5)
LAYERS, HEADS = 2, 3


def toy_vocabulary() -> SubwordVocabulary:
    """Returns a vocabulary of 266 ids."""
    return SubwordVocabulary(learn_subwords(["ab ba abc", "c ba"], vocabulary_size=266))


def toy_weight(vocabulary: SubwordVocabulary) -> tf.Variable:
    """Returns the model's only variable: the weight of each id."""
    return tf.Variable(tf.range(vocabulary.size, dtype=tf.float32), name="weight")


def toy_model(weight: tf.Variable) -> ServedModel:
    """Returns a model that translates each sentence to itself.

    The n-th translation has the source's tokens without the first n. Its score is the
    sum of the source's ids minus n. With options, 1000 * beam_size + alpha is added to
    it, and the tokens are cut at max_length.
    """

    def search(source, settings, *, options=None, growing=True):
        del growing  # there is no cache
        is_token_BS = tf.cast(source != 0, tf.float32)
        sums_B = tf.reduce_sum(tf.gather(weight, source) * is_token_BS, axis=1)
        lengths_B = tf.cast(tf.reduce_sum(is_token_BS, axis=1), tf.int32)
        extra_B = tf.zeros_like(sums_B)
        if options is not None:
            extra_B = 1000.0 * tf.cast(options.beam_sizes, tf.float32) + options.alphas
            fits_BS = tf.range(tf.shape(source)[1]) < options.max_lengths[:, None]
            source = tf.where(fits_BS, source, 0)
            lengths_B = tf.minimum(lengths_B, options.max_lengths)
        ranks = range(settings.results)
        tokens = [tf.pad(source, [[0, 0], [0, n]])[:, n:] for n in ranks]
        scores = tf.stack([sums_B + extra_B - float(n) for n in ranks], 1)
        lengths = tf.stack([tf.maximum(lengths_B - n, 0) for n in ranks], 1)
        return BeamSearchResult(tf.stack(tokens, 1), lengths, 2.0 * scores, scores)

    def target_log_probs(source, target):
        lengths_B1 = tf.reduce_sum(tf.cast(source != 0, tf.float32), 1, keepdims=True)
        return tf.where(target == 0, 0.0, -tf.gather(weight, target) - lengths_B1)

    def attention(source, decoder_input):
        def maps(queries, keys):
            queries_BQC = tf.cast(
                queries[:, :, None] * 1000 + keys[:, None], tf.float32
            )
            shape = tf.concat([tf.shape(queries_BQC)[:1], [LAYERS, HEADS],
                               tf.shape(queries_BQC)[1:]], 0)  # fmt: skip
            return tf.broadcast_to(queries_BQC[:, None, None], shape)

        return (
            maps(source, source),
            maps(decoder_input, decoder_input),
            maps(decoder_input, source),
        )

    return ServedModel(search, target_log_probs, attention, [weight])
