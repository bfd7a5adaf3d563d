"""Cache growth: finished sentences and unused slots leave, new slots are appended."""

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.beam_search import beam_search
from t2t_keras.decoding.cache_growth import (
    find_live_slots,
    gather_sentences,
    grow_visible_slots,
)
from t2t_keras.decoding.search_state import initial_state, sentence_settings
from t2t_keras.decoding.settings import BeamSearchSettings
from tests.decoding.toy_models import EOS, TableModel

SETTINGS = BeamSearchSettings(beam_size=4, alpha=0.6)


def test_gathered_sentences_keep_all_their_tensors():
    sentences = sentence_settings(tf.constant([3, 4, 5, 6]), 6, SETTINGS, None)
    cache = {"a": tf.constant([[10], [11], [12], [13]]), "b": [tf.range(4) * 2]}
    state = initial_state(cache, sentences, beams=4, slots=2, max_decode_length=6)
    left = gather_sentences(state, tf.constant([3, 1]))
    assert left.position == state.position
    assert left.cache["a"].numpy().tolist() == [[13], [11]]
    assert left.cache["b"][0].numpy().tolist() == [6, 2]
    assert left.sentences.rows.numpy().tolist() == [3, 1]
    assert left.sentences.limits.numpy().tolist() == [6, 4]
    assert left.finished.tokens.shape == (2, 4, 6)
    nobody = gather_sentences(state, tf.zeros([0], tf.int32))
    assert nobody.visible_slots.shape == (0, 1, 2)


def test_slots_that_live_hypotheses_see_are_kept_in_their_order():
    sentences = sentence_settings(tf.constant([9, 9]), 9, SETTINGS, None)
    state = initial_state({}, sentences, beams=2, slots=6, max_decode_length=9)
    visible = np.zeros([2, 2, 6], bool)
    visible[0, 0, [0, 3]] = visible[0, 1, [0, 4]] = True
    visible[1, 0, [1, 5]] = visible[1, 1, [0, 2, 4]] = True
    state = state._replace(
        visible_slots=tf.constant(visible),
        # The second hypothesis of the second sentence is not live.
        live_log_probs=tf.constant([[0.0, -1.0], [0.0, -np.inf]]),
    )
    index = find_live_slots(state)
    assert index.numpy()[0].tolist() == [0, 3, 4]
    assert index.numpy()[1].tolist()[:2] == [1, 5]
    assert index.shape == (2, 3)
    kept = grow_visible_slots(state, index, 2)
    assert kept.first_slot == 3
    expected = [[1, 1, 0, 0, 0], [1, 0, 1, 0, 0]]
    np.testing.assert_array_equal(kept.visible_slots[0], np.array(expected, bool))
    np.testing.assert_array_equal(
        kept.visible_slots[1, 0], np.array([1, 1, 0, 0, 0], bool)
    )


def test_finished_sentences_and_slots_that_none_needs_are_dropped():
    model = TableModel.random(3, 5, 8)
    model.logits[..., EOS] = -20.0  # all reach their limits
    rows, slots = [], []

    def step(tokens, position, first_slot, visible_slots, cache):
        rows.append(tokens.shape[0])
        slots.append(visible_slots.shape[2])
        in_use = tf.reduce_any(visible_slots, axis=1)
        if int(first_slot) and rows[-1] == 1 and len(set(slots[-2:])) > 1:
            # After growing, a single remaining sentence has no unused slot.
            assert tf.reduce_all(in_use[:, : int(first_slot)])
        return model.step(tokens, position, first_slot, visible_slots, cache)

    beam_search(
        step,
        model.cache(0),
        max_lengths=[3, 30, 3, 12, 3],
        max_decode_length=30,
        vocabulary_size=8,
        settings=BeamSearchSettings(beam_size=2),
        grow_fn=model.grow,
    )
    assert rows == [5] * 8 + [2] * 8 + [1] * 14
    assert slots[:8] == [16] * 8
    # Some of the 8 x 2 slots of each growth are dropped, but one per position remains.
    assert 16 + 8 <= slots[8] < 32
    assert 16 + 24 <= slots[-1] < 64


def test_a_growing_graph_has_the_model_once_and_the_same_results() -> None:
    """The empty hypothesis, which is one, goes through the same step as all others."""
    model = TableModel.random(3, 5, 8)
    widths = []

    def step(tokens, *rest):
        widths.append(tokens.shape[1])
        return model.step(tokens, *rest)

    def search():
        return beam_search(
            step,
            model.cache(0),
            max_lengths=[3, 11, 3, 12, 1],
            max_decode_length=12,
            vocabulary_size=8,
            settings=BeamSearchSettings(beam_size=4, alpha=0.6),
            grow_fn=model.grow,
        )

    in_graph = tf.function(search)()
    assert widths == [None]
    eager = search()
    assert widths[1:3] == [1, 4]
    for ours, theirs in zip(in_graph, eager, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
