"""Steps: which sentences they are made for, and with which options."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.beam_search import BeamSearchResult, beam_search
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from tests.decoding.toy_models import (
    EAGER,
    EOS,
    GRAPH,
    TableModel,
    assert_same,
    search,
)


def test_what_nobody_needs_any_more_is_left_out():
    model = TableModel.random(3, 5, 8)
    model.logits[..., EOS] = -20.0  # all go on to their limits
    rows, slots = [], []

    def step(tokens, position, first_slot, past, cache):
        rows.append(tokens.shape[0])
        slots.append(past.shape[2])
        in_use = tf.reduce_any(past, axis=1)
        if int(first_slot) and rows[-1] == 1 and len(set(slots[-2:])) > 1:
            # After growing, a sentence that is alone has no slot that nobody has used.
            assert tf.reduce_all(in_use[:, : int(first_slot)])
        return model.step(tokens, position, first_slot, past, cache)

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
    # Not all of the 8 x 2 slots of each growth are kept, nor fewer than one a position.
    assert 16 + 8 <= slots[8] < 32
    assert 16 + 24 <= slots[-1] < 64


@pytest.mark.parametrize("how", [EAGER, GRAPH])
def test_a_sentence_with_options_of_its_own_is_searched_as_if_all_had_them(how):
    model = TableModel.random(21, 8, 12)
    limits, length = [14, 14, 9, 20, 14, 11, 1, 20], 20
    own = RowOptions(
        beam_sizes=np.array([1, 4, 2, 3, 1, 5, 4, 2]),
        alphas=np.array([0.0, 0.6, 2.0, 0.0, 1.0, 0.3, 0.6, 3.0], np.float32),
        max_lengths=np.array([99, 7, 99, 20, 3, 99, 99, 12]),
    )
    together = search(
        model, limits, length, how=how, options=own, beam_size=5, n_best=1
    )
    for row, (beam_size, alpha, most) in enumerate(zip(*own, strict=True)):
        alone = search(
            model.rows([row]),
            [min(limits[row], most)],
            length,
            beam_size=int(beam_size),
            alpha=float(alpha),
            n_best=1,
        )
        assert_same(BeamSearchResult(*[field[[row]] for field in together]), alone)


def test_options_out_of_range_are_taken_as_the_nearest_that_can_be():
    model = TableModel.random(5, 3, 9)
    wild, tame = (
        search(
            model,
            [9, 9, 9],
            9,
            options=RowOptions(np.array(sizes), np.array(alphas, "f"), np.array(most)),
            beam_size=4,
            n_best=2,
        )
        for sizes, alphas, most in (
            ([0, 4, -7], [-1.0, 0.5, 0.0], [-3, 1000, 0]),
            ([1, 4, 1], [0.0, 0.5, 0.0], [1, 9, 1]),
        )
    )
    assert_same(wild, tame)
    # A beam of one has one result.
    assert wild.lengths[0].tolist() == [1, 0]
