"""Search state: settings and length penalties per sentence, sizes of axes."""

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.search_state import sentence_settings
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions

SETTINGS = BeamSearchSettings(beam_size=4, alpha=0.6)


def test_settings_are_the_same_for_all_sentences():
    sentences = sentence_settings(tf.constant([7, 0, 99]), 9, SETTINGS, None)
    assert sentences.limits.numpy().tolist() == [7, 1, 9]
    assert sentences.beam_sizes.numpy().tolist() == [4, 4, 4]
    expected = ((5 + np.arange(10)) / 6) ** 0.6
    np.testing.assert_allclose(
        sentences.penalties, np.tile(expected, (3, 1)), rtol=1e-6
    )


def test_penalties_never_fall_and_do_not_depend_on_what_is_known_of_the_length():
    one = tf.constant([5])
    for alpha in (1e-4, 0.6, 2.0):
        options = RowOptions(tf.constant([2]), tf.constant([alpha]), tf.constant([9]))
        settings = BeamSearchSettings(beam_size=4, alpha=float(np.float32(alpha)))
        tables = [
            sentence_settings(one, length, settings, given).penalties.numpy()
            for length in (600, tf.constant(600))
            for given in (None, options)
        ]
        for table in tables:
            assert (np.diff(table) >= 0).all()
            np.testing.assert_array_equal(table, tables[0])
