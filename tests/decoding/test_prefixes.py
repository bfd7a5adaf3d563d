"""Forced beginnings, against the enumeration of the sentences that begin so."""

import numpy as np
import pytest

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import RowOptions
from tests.decoding.test_beam_search import assert_hypotheses
from tests.decoding.test_search_options import ALL_ON
from tests.decoding.toy_models import (
    COMPILED,
    EAGER,
    EOS,
    GRAPH,
    TableModel,
    assert_same,
    exhaustive_search,
    search,
)
from tests.reference.beam_np import (
    plain_beam_search,
)

# No prefix, short ones, one that breaks all rules, one that fills the limit.
PREFIXES = np.array(
    [[0, 0, 0, 0], [3, 0, 0, 0], [4, 2, 0, 0], [2, 2, 2, 2], [3, 4, 2, 3]]
)
LIMITS = (5, 4, 3, 5, 5)


def unpadded(row):
    return tuple(token for token in PREFIXES[row].tolist() if token)


def test_a_wide_beam_equals_exhaustive_search():
    model = TableModel.random(10, 5, 5)
    options = RowOptions(prefixes=PREFIXES)
    result = search(model, LIMITS, 5, options=options, beam_size=81)
    for row, limit in enumerate(LIMITS):
        expected = exhaustive_search(model, row, limit, 0.6, 5, prefix=unpadded(row))
        assert_hypotheses(result, row, expected)
        # The score is that of the whole sentence, its forced part included.
        tokens = expected[0][0]
        assert expected[0][1] == pytest.approx(model.log_prob(row, tokens))


def test_a_narrow_beam_with_all_options_equals_a_plain_one_in_every_mode():
    model = TableModel.random(10, 5, 9)
    options = RowOptions(prefixes=PREFIXES)
    for how in (EAGER, GRAPH, COMPILED):
        settings = {"beam_size": 3, "alpha": 0.7, **ALL_ON._asdict()}
        result = search(model, LIMITS, 5, None, how, options, **settings)
        for row, limit in enumerate(LIMITS):
            expected = plain_beam_search(
                model, row, limit, 0.7, 9, 3, ALL_ON, unpadded(row)
            )
            assert_hypotheses(result, row, expected)


def test_a_row_does_not_depend_on_its_batch_or_the_width_of_the_prefixes():
    model = TableModel.random(10, 5, 9)
    settings = {"beam_size": 3, "alpha": 0.7}
    together = search(
        model, LIMITS, 5, options=RowOptions(prefixes=PREFIXES), **settings
    )
    for row in range(5):
        width = max(len(unpadded(row)), 1)
        options = RowOptions(prefixes=PREFIXES[[row], :width])
        alone = search(model.rows([row]), [LIMITS[row]], 5, options=options, **settings)
        assert_same(alone, BeamSearchResult(*[field[[row]] for field in together]))
    without = search(model, LIMITS, 5, **settings)
    assert_same(*[BeamSearchResult(*[f[[0]] for f in r]) for r in (together, without)])


def test_at_the_limit_the_end_takes_precedence():
    model = TableModel.random(10, 2, 5)
    options = RowOptions(prefixes=np.array([[3, 3, 3], [3, 3, 3]]))
    result = search(model, [2, 1], 5, options=options, beam_size=2)
    assert result.tokens[:, 0].tolist() == [[3, EOS, 0, 0, 0], [EOS, 0, 0, 0, 0]]
