"""Options of the search: length penalties, and tokens that may not follow.

The oracle is the enumeration of all sentences, filtered by rules on Python tuples.
"""

import itertools

import numpy as np

from t2t_keras.decoding.search_state import BeamSearchResult
from tests.decoding.test_beam_search import assert_hypotheses
from tests.decoding.toy_models import (
    EOS,
    TableModel,
    assert_same,
    exhaustive_search,
    search,
)
from tests.reference.beam_np import (
    Rules,
    plain_beam_search,
)

# Everything at once: 2 is suppressed, EOS needs two tokens, no two tokens twice.
ALL_ON = Rules("power", (2, 7), 2, 2, True)
EACH = (
    (Rules("power"), 1.0),
    (Rules("none"), 0.6),
    (Rules(suppressed=(2,)), 0.6),
    (Rules(min_length=3), 0.6),
    (Rules(min_length=9), 0.0),
    (Rules(no_repeat_ngram=2), 1.0),
    (Rules("power", renormalize=True), 0.9),
    (Rules("power", (2,), 2, 2, True), 0.8),
)


def test_a_wide_beam_equals_exhaustive_search_with_each_option():
    model = TableModel.random(10, 5, 5)
    limits = [5, 1, 3, 5, 2]
    for rules, alpha in EACH:
        result = search(model, limits, 5, beam_size=81, alpha=alpha, **rules._asdict())
        for row, limit in enumerate(limits):
            expected = exhaustive_search(model, row, limit, alpha, 5, rules)
            assert_hypotheses(result, row, expected)


def test_the_penalties_choose_different_sentences():
    model = TableModel.random(10, 40, 5)
    best = {
        kind: search(
            model, [5] * 40, 5, beam_size=8, alpha=1.0, length_penalty=kind
        ).lengths[:, 0]
        for kind in ("none", "gnmt", "power")
    }
    means = [best[kind].mean() for kind in ("none", "gnmt", "power")]
    assert means == sorted(means)
    assert len(set(means)) == 3


def test_a_narrow_beam_equals_a_plain_one():
    """Graphs and XLA are in test_prefixes.py, together with prefixes."""
    model = TableModel.random(3, 6, 11)
    limits, length, vocabulary = [7, 4, 1, 7, 6, 2], 7, 9
    settings = {"beam_size": 3, "alpha": 0.7, **ALL_ON._asdict()}
    result = search(model, limits, length, vocabulary, **settings)
    for row, limit in enumerate(limits):
        expected = plain_beam_search(
            model, row, limit, 0.7, vocabulary, 3, rules=ALL_ON
        )
        assert_hypotheses(result, row, expected)


def test_a_beam_of_one_obeys_too():
    model = TableModel.random(5, 12, 9)
    settings = {"beam_size": 1, "alpha": 0.7, **ALL_ON._asdict()}
    result = search(model, [6] * 12, 6, **settings)
    for row in range(12):
        tokens = result.tokens[row, 0, : result.lengths[row, 0]].tolist()
        assert not {2, 7} & set(tokens)
        assert len(tokens) >= 3
        pairs = list(itertools.pairwise(tokens))
        assert len(set(pairs)) == len(pairs)


def count_steps_saved(settings):
    """Returns the number of steps saved; asserts that the results do not differ."""
    saved = 0
    model = TableModel.random(1, 5, 7)
    limits = [10, 3, 9, 10, 10]
    full = search(model, limits, 10, early_stop=False, beam_size=4, **settings)
    assert model.calls == 10
    for n_best in (4, 1):
        model.calls = 0
        early = search(model, limits, 10, n_best=n_best, beam_size=4, **settings)
        saved += 10 - model.calls
        assert_same(early, BeamSearchResult(*[f[:, :n_best] for f in full]))
    return saved


def test_stopping_early_stays_exact():
    saved = [
        count_steps_saved({"alpha": alpha, **rules._asdict()})
        for rules, alpha in (
            (Rules("none"), 3.0),
            (Rules(), 0.6),
            (Rules(), 4.0),
            (Rules("power"), 0.4),
            (Rules("power"), 2.0),
            (ALL_ON, 0.6),
        )
    ]
    # The stronger the penalty, the longer a live hypothesis can still win.
    assert saved[0] > saved[1] > saved[2]
    assert saved[0] > saved[4]
    assert saved[3] > 0


def test_a_sentence_does_not_depend_on_its_batch_mates():
    model = TableModel.random(9, 8, 13)
    limits = np.array([8, 3, 5, 1, 8, 6, 2, 7])
    options = {"beam_size": 3, "alpha": 0.6, **ALL_ON._asdict()}
    together = search(model, limits, 8, **options)
    mates = np.array([6, 0, 4, 4, 2])
    chosen = search(model.rows(mates), limits[mates], 8, **options)
    assert_same(chosen, BeamSearchResult(*[field[mates] for field in together]))


def test_fewer_candidates_than_beams_leave_empty_places():
    """Ids 1 (EOS) and 3 remain, so that there is one sentence of each length."""
    model = TableModel.random(4, 3, 4)
    rules = Rules(suppressed=(2,), min_length=1)
    result = search(model, [4, 1, 2], 4, beam_size=5, alpha=0.6, **rules._asdict())
    # The limit of the second row takes precedence over its minimum length.
    assert (result.lengths > 0).sum(axis=1).tolist() == [3, 1, 1]
    assert result.tokens[1, 0].tolist() == [EOS, 0, 0, 0]
    for row, limit in enumerate([4, 1, 2]):
        every = exhaustive_search(model, row, limit, 0.6, 4, rules)
        assert_hypotheses(result, row, every)


def test_a_sentence_that_cannot_be_continued_has_no_result():
    model = TableModel.random(4, 2, 4)
    for beam_size in (1, 3):
        # After 2 and 3, in either order, no token is left, and EOS needs a third.
        settings = {"beam_size": beam_size, "min_length": 3, "no_repeat_ngram": 1}
        result = search(model, [9, 2], 9, **settings)
        assert not result.lengths[0].any()
        assert np.all(result.scores[0] == -np.inf)
        assert result.lengths[1, 0] == 2
