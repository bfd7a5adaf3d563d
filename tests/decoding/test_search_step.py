"""Search options per sentence, compared with a search with these options for all."""

import numpy as np

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import RowOptions
from tests.decoding.toy_models import (
    EAGER,
    GRAPH,
    TableModel,
    assert_same,
    search,
)


def test_a_sentence_with_options_of_its_own_is_searched_as_if_all_had_them():
    model = TableModel.random(21, 8, 12)
    limits, length = [14, 14, 9, 20, 14, 11, 1, 20], 20
    own = RowOptions(
        beam_sizes=np.array([1, 4, 2, 3, 1, 5, 4, 2]),
        alphas=np.array([0.0, 0.6, 2.0, 0.0, 1.0, 0.3, 0.6, 3.0], np.float32),
        max_lengths=np.array([99, 7, 99, 20, 3, 99, 99, 12]),
    )
    together = [
        search(model, limits, length, how=how, options=own, beam_size=5, n_best=1)
        for how in (EAGER, GRAPH)
    ]
    for row, (beam_size, alpha, most) in enumerate(zip(*own[:3], strict=True)):
        alone = search(
            model.rows([row]),
            [min(limits[row], most)],
            length,
            beam_size=int(beam_size),
            alpha=float(alpha),
            n_best=1,
        )
        for result in together:
            assert_same(BeamSearchResult(*[field[[row]] for field in result]), alone)


def test_options_out_of_range_are_clipped_to_the_range():
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
