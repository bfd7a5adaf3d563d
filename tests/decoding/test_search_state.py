"""What a search starts from, and what is left of it when sentences leave."""

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.search_state import (
    first_state,
    sentences_of,
    slots_in_use,
    taken,
    with_slots,
)
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions

SETTINGS = BeamSearchSettings(beam_size=4, alpha=0.6)


def test_settings_are_the_same_for_all_sentences():
    found = sentences_of(tf.constant([7, 0, 99]), 9, SETTINGS, None)
    assert found.limits.numpy().tolist() == [7, 1, 9]
    assert found.beam_sizes.numpy().tolist() == [4, 4, 4]
    expected = ((5 + np.arange(10)) / 6) ** 0.6
    np.testing.assert_allclose(found.penalties, np.tile(expected, (3, 1)), rtol=1e-6)


def test_penalties_never_fall_and_do_not_depend_on_what_is_known_of_the_length():
    one = tf.constant([5])
    for alpha in (1e-4, 0.6, 2.0):
        options = RowOptions(tf.constant([2]), tf.constant([alpha]), tf.constant([9]))
        settings = BeamSearchSettings(beam_size=4, alpha=float(np.float32(alpha)))
        tables = [
            sentences_of(one, length, settings, given).penalties.numpy()
            for length in (600, tf.constant(600))
            for given in (None, options)
        ]
        for table in tables:
            assert (np.diff(table) >= 0).all()
            np.testing.assert_array_equal(table, tables[0])


def test_taken_sentences_keep_everything_that_is_theirs():
    sentences = sentences_of(tf.constant([3, 4, 5, 6]), 6, SETTINGS, None)
    cache = {"a": tf.constant([[10], [11], [12], [13]]), "b": [tf.range(4) * 2]}
    state = first_state(cache, sentences, beams=4, slots=2, max_decode_length=6)
    left = taken(state, tf.constant([3, 1]))
    assert left.position == state.position
    assert left.cache["a"].numpy().tolist() == [[13], [11]]
    assert left.cache["b"][0].numpy().tolist() == [6, 2]
    assert left.sentences.rows.numpy().tolist() == [3, 1]
    assert left.sentences.limits.numpy().tolist() == [6, 4]
    assert left.finished.tokens.shape == (2, 4, 6)
    nobody = taken(state, tf.zeros([0], tf.int32))
    assert nobody.past.shape == (0, 1, 2)


def test_slots_that_the_living_have_been_through_are_kept_in_their_order():
    sentences = sentences_of(tf.constant([9, 9]), 9, SETTINGS, None)
    state = first_state({}, sentences, beams=2, slots=6, max_decode_length=9)
    past = np.zeros([2, 2, 6], bool)
    past[0, 0, [0, 3]] = past[0, 1, [0, 4]] = True
    past[1, 0, [1, 5]] = past[1, 1, [0, 2, 4]] = True
    state = state._replace(
        past=tf.constant(past),
        # The second hypothesis of the second sentence is dead.
        live_log_probs=tf.constant([[0.0, -1.0], [0.0, -np.inf]]),
    )
    index = slots_in_use(state)
    assert index.numpy()[0].tolist() == [0, 3, 4]
    assert index.numpy()[1].tolist()[:2] == [1, 5]
    assert index.shape == (2, 3)
    kept = with_slots(state, index, 2)
    assert kept.first_slot == 3
    expected = [[1, 1, 0, 0, 0], [1, 0, 1, 0, 0]]
    np.testing.assert_array_equal(kept.past[0], np.array(expected, bool))
    np.testing.assert_array_equal(kept.past[1, 0], np.array([1, 1, 0, 0, 0], bool))
