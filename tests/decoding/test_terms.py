"""Terms that must occur, against the enumeration of the sentences that have them."""

import numpy as np
import pytest

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import RowOptions
from tests.decoding.test_beam_search import assert_hypotheses
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

# No term; one token; several; a repeated token, of which a beginning is its end too; a
# term within another; two that overlap.
TERMS = (
    (),
    ((3,),),
    ((4, 2), (3,)),
    ((2, 2, 3),),
    ((3,), (2, 3)),
    ((2, 3), (3, 4)),
)
LIMITS = (5, 4, 5, 5, 5, 5)


def padded(rows):
    terms = np.zeros([len(rows), 2, 3], np.int32)
    for b, row in enumerate(rows):
        for c, term in enumerate(row):
            terms[b, c, : len(term)] = term
    return RowOptions(terms=terms)


def has(sentence, term):
    windows = [sentence[i : i + len(term)] for i in range(len(sentence))]
    return tuple(term) in windows


def expected_of(model, row, limit, terms, prefix=(), vocabulary=5):
    return [
        found
        for found in exhaustive_search(
            model, row, limit, 0.6, vocabulary, prefix=prefix
        )
        if all(has(found[0], term) for term in terms)
    ]


@pytest.mark.parametrize(
    "how",
    [
        EAGER,
        pytest.param(GRAPH, marks=pytest.mark.slow),
        pytest.param(COMPILED, marks=pytest.mark.slow),
    ],
)
def test_a_wide_beam_equals_exhaustive_search(how):
    model = TableModel.random(10, 6, 5)
    result = search(
        model, LIMITS, 5, how=how, options=padded(TERMS), beam_size=160, n_best=3
    )
    for row, (limit, terms) in enumerate(zip(LIMITS, TERMS, strict=True)):
        expected = expected_of(model, row, limit, terms)[:3]
        assert_hypotheses(result, row, expected)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_a_narrow_beam_obeys_and_others_are_as_without_terms(beam_size):
    model = TableModel.random(3, 6, 9)
    limits = [9, *LIMITS[1:]]
    settings = {"beam_size": beam_size, "alpha": 0.7}
    result = search(model, limits, 9, options=padded(TERMS), **settings)
    for row, terms in enumerate(TERMS):
        for n in range(beam_size):
            length = result.lengths[row, n]
            tokens = tuple(result.tokens[row, n, :length].tolist())
            assert not length or all(has(tokens, term) for term in terms)
        assert result.lengths[row, 0]
        tokens = tuple(result.tokens[row, 0, : result.lengths[row, 0]].tolist())
        assert float(result.log_probs[row, 0]) == pytest.approx(
            model.log_prob(row, tokens), abs=1e-5
        )
    without = search(model, limits, 9, **settings)
    assert_same(*[BeamSearchResult(*[f[[0]] for f in r]) for r in (result, without)])


def test_rows_do_not_depend_on_their_batch_and_may_have_their_own_beams():
    model = TableModel.random(5, 6, 9)
    options = padded(TERMS)._replace(beam_sizes=np.array([1, 2, 3, 4, 2, 3]))
    settings = {"alpha": 0.7}
    together = search(model, LIMITS, 5, options=options, beam_size=4, **settings)
    for row, size in enumerate(options.beam_sizes):
        alone = search(
            model.rows([row]),
            [LIMITS[row]],
            5,
            options=padded([TERMS[row]]),
            beam_size=int(size),
            **settings,
        )
        own = BeamSearchResult(*[field[[row], :size] for field in together])
        assert_same(alone, own)


def test_a_prefix_comes_first_and_may_have_the_term():
    model = TableModel.random(10, 6, 5)
    prefixes = np.array([[3, 2], [3, 2], [4, 2], [2, 2], [2, 3], [3, 0]])
    options = padded(TERMS)._replace(prefixes=prefixes)
    # After its prefix a row has room for the first term only.
    limits, fitting = (6, 6, 5, 6, 6, 6), [*TERMS]
    fitting[2] = ((4, 2),)
    result = search(model, limits, 6, options=options, beam_size=90, n_best=2)
    for row, (limit, terms) in enumerate(zip(limits, fitting, strict=True)):
        prefix = tuple(token for token in prefixes[row].tolist() if token)
        expected = expected_of(model, row, limit, terms, prefix)[:2]
        assert_hypotheses(result, row, expected)


def test_what_does_not_fit_is_left_out_from_the_last_term_on():
    model = TableModel.random(10, 6, 5)
    limits = (5, 1, 3, 3, 4, 4)
    result = search(model, limits, 5, options=padded(TERMS), beam_size=160, n_best=1)
    fitting = ((), (), ((4, 2),), (), TERMS[4], ((2, 3),))
    for row, (limit, terms) in enumerate(zip(limits, fitting, strict=True)):
        expected = expected_of(model, row, limit, terms)[:1]
        assert_hypotheses(result, row, expected)
    assert result.tokens[1, 0].tolist() == [EOS, 0, 0, 0, 0]


def test_samples_take_no_terms():
    from t2t_keras.decoding.sampling import Sampling

    model = TableModel.random(10, 6, 5)
    options = padded(TERMS)._replace(seeds=np.arange(6))
    with pytest.raises(ValueError, match="Sampling takes no terms"):
        search(model, LIMITS, 5, options=options, sampling=Sampling())


@pytest.mark.parametrize("how", [EAGER, GRAPH])
def test_a_batch_may_have_no_sentence_and_no_term(how):
    model = TableModel.random(3, 6, 9)
    none = RowOptions(terms=np.zeros([6, 0, 3], np.int32))
    found = search(model, LIMITS, 5, how=how, options=none)
    assert_same(found, search(model, LIMITS, 5, how=how))
    for shape in ([0, 2, 3], [0, 0, 1]):
        options = RowOptions(terms=np.zeros(shape, np.int32))
        found = search(model.rows([]), [], 5, how=how, options=options)
        assert found.tokens.shape[0] == 0
