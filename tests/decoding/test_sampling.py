"""Sampling against exact probabilities, and against a filter in float64 NumPy."""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.sampling import Sampling
from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import RowOptions
from t2t_keras.errors import UserError
from tests.decoding.test_search_options import ALL_ON
from tests.decoding.toy_models import (
    COMPILED,
    EAGER,
    EOS,
    PAD,
    TableModel,
    assert_same,
    search,
)
from tests.reference.beam_np import DEFAULT_RULES, may_follow, score, token_log_probs


def filtered_probabilities(logits, temperature, top_k, top_p):
    """Returns the probabilities [V] that tokens are drawn with, in float64.

    Temperature first, then the `top_k` likeliest (Fan et al. 2018), then the smallest
    set of the likeliest that reaches `top_p` (Holtzman et al. 2020). Of equals the
    lower id is kept.
    """
    with np.errstate(divide="ignore"):
        weights = np.exp((logits - logits.max()) / temperature)
    order = sorted(range(len(logits)), key=lambda token: (-weights[token], token))
    order = order[: top_k or len(logits)]
    total = sum(weights[token] for token in order)
    kept, mass = [], 0.0
    for token in order:
        if mass < top_p:
            kept.append(token)
        mass += weights[token] / total
    probabilities = np.zeros(len(logits))
    probabilities[kept] = weights[kept]
    return probabilities / probabilities.sum()


def test_the_filter_keeps_the_tokens_of_the_reference():
    generator = np.random.default_rng(3)
    logits = generator.normal(size=[7, 13]).astype(np.float32) * 2
    logits[2] = np.round(logits[2])  # with equals
    logits[3] = np.log(0.25)
    logits[3, 4:] = -np.inf
    logits[4, ::2] = -np.inf
    for temperature, top_k, top_p in itertools.product(
        (1.0, 0.6, 3.0), (0, 1, 4, 99), (1.0, 0.93, 0.5, 1e-6)
    ):
        values, ids = Sampling(temperature, top_k, top_p).filter(tf.constant(logits))
        ids = np.broadcast_to(ids, values.shape)
        for row in range(7):
            expected = filtered_probabilities(
                logits[row].astype(float), temperature, top_k, top_p
            )
            actual = np.zeros(13)
            actual[ids[row]] = tf.nn.softmax(values[row])
            np.testing.assert_allclose(
                actual, expected, atol=1e-6, err_msg=str((temperature, top_k, top_p))
            )


def test_of_equally_likely_tokens_the_lower_ids_are_kept():
    logits = tf.math.log(tf.constant([[0.25, 0.25, 0.25, 0.25, 0.0]]))
    for settings in (Sampling(top_k=2), Sampling(top_p=0.5), Sampling(1.0, 3, 0.6)):
        values, ids = settings.filter(logits)
        assert ids.numpy()[np.isfinite(values)].tolist() == [0, 1], settings


def sentence_probabilities(model, limit, settings, rules=DEFAULT_RULES):
    """Returns the exact probability of each sentence, in float64."""
    probabilities, live = {}, {(): 1.0}
    while live:
        history, p = live.popitem()
        log_probs = model.log_probs(0, history).copy()
        for token in range(model.width):
            if token == PAD or not may_follow(history, token, limit, rules):
                log_probs[token] = -np.inf
        next_ = filtered_probabilities(
            log_probs, settings.temperature, settings.top_k, settings.top_p
        )
        for token in np.flatnonzero(next_).tolist():
            into = probabilities if token == EOS else live
            into[(*history, token)] = p * next_[token]
    return probabilities


def draw(model, limits, length, *, samples, seeds, settings=None, how=EAGER, **rest):
    return search(
        model,
        limits,
        length,
        how=how,
        options=RowOptions(seeds=np.asarray(seeds), **rest.pop("options", {})),
        beam_size=samples,
        sampling=settings or Sampling(),
        **rest,
    )


def chi_square(counts, probabilities, total):
    """Returns Pearson's statistic in standard deviations above its mean."""
    rare = [s for s, p in probabilities.items() if p * total < 10]
    expected = [p * total for s, p in probabilities.items() if s not in rare]
    observed = [counts[s] for s in probabilities if s not in rare]
    expected.append(sum(probabilities[s] for s in rare) * total + 1e-9)
    observed.append(sum(counts[s] for s in rare))
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    freedom = len(expected) - 1
    return (statistic - freedom) / np.sqrt(2 * freedom)


def frequencies(settings, rules, rows=200, samples=50):
    one = TableModel.random(8, 1, 6)
    model = one.rows([0] * rows)
    result = draw(
        model, [4] * rows, 4, samples=samples, seeds=np.arange(rows) * 2**32 + 77,
        settings=settings, **rules._asdict(),
    )  # fmt: skip
    counts = collections.Counter(
        tuple(tokens[:length].tolist())
        for tokens, length in zip(
            result.tokens.reshape(-1, 4), result.lengths.reshape(-1), strict=True
        )
    )
    probabilities = sentence_probabilities(one, 4, settings, rules)
    assert sum(probabilities.values()) == pytest.approx(1.0)
    assert counts.keys() <= probabilities.keys()
    return chi_square(counts, probabilities, rows * samples)


CASES = (
    (Sampling(), DEFAULT_RULES),
    (Sampling(0.7, 4, 0.9), DEFAULT_RULES._replace(min_length=1, no_repeat_ngram=1)),
)


def test_frequencies_are_the_models_probabilities():
    for settings, rules in CASES:
        assert abs(frequencies(settings, rules)) < 4, settings


def test_a_sample_depends_on_its_seed_and_number_only():
    model = TableModel.random(9, 8, 13)
    limits, seeds = (
        np.array([8, 3, 5, 1, 8, 6, 2, 7]),
        np.array([5, 6, 7, 8, -9, 0, 1, 2]),
    )
    settings = Sampling(1.3, 9, 0.97)
    rest = {"alpha": 0.6, "settings": settings, **ALL_ON._asdict()}
    whole = draw(model, limits, 8, samples=4, seeds=seeds, **rest)
    compiled = draw(model, limits, 8, samples=4, seeds=seeds, how=COMPILED, **rest)
    assert_same(whole, compiled)
    mates = np.array([6, 0, 4, 4, 2])
    chosen = draw(
        model.rows(mates), limits[mates], 8, samples=2, seeds=seeds[mates], **rest
    )
    assert_same(chosen, BeamSearchResult(*[field[mates, :2] for field in whole]))


def test_seeds_numbers_and_positions_have_their_own_noise():
    model = TableModel.random(9, 1, 60)
    model.logits[:] = 0.0
    model.logits[..., EOS] = -9.0
    seeds = [0, 1, 2**32, -1, 2**62]
    result = draw(model.rows([0] * 5), [20] * 5, 20, samples=3, seeds=seeds)
    rows = result.tokens.reshape(15, 20)[:, :19]
    for first, second in itertools.combinations(rows, 2):
        assert np.mean(first == second) < 0.4
    # At each position of a row the noise differs, so no token prevails.
    assert all(len(set(row.tolist())) > 8 for row in rows)


def test_scores_are_the_models_own_and_rules_are_kept():
    model = TableModel.random(4, 6, 12)
    prefixes = np.array([[4, 0], [5, 5], [0, 0], [2, 0], [3, 0], [0, 0]])
    limits = [7, 7, 1, 5, 6, 7]
    rules = {**ALL_ON._asdict(), "alpha": 0.8}
    result = draw(
        model, limits, 7, samples=5, seeds=range(6), settings=Sampling(1.5),
        options={"prefixes": prefixes}, **rules,
    )  # fmt: skip
    for row, sample in itertools.product(range(6), range(5)):
        length = result.lengths[row, sample]
        tokens = tuple(result.tokens[row, sample, :length].tolist())
        prefix = tuple(token for token in prefixes[row].tolist() if token)
        steps = [
            token_log_probs(model, row, tokens[:i], limits[row], 12, ALL_ON, prefix)
            for i in range(length)
        ]
        assert tokens.index(EOS) == length - 1
        # A token that may not follow has none.
        log_prob = sum(step[token] for token, step in zip(tokens, steps, strict=True))
        np.testing.assert_allclose(result.log_probs[row, sample], log_prob, rtol=1e-4)
        expected = score(log_prob, length, 0.8, "power")
        np.testing.assert_allclose(result.scores[row, sample], expected, rtol=1e-4)


def test_nan_logits_have_no_sample():
    model = TableModel.random(6, 3, 9)
    sound = draw(model, [5] * 3, 5, samples=2, seeds=range(3))
    model.logits[1] = np.nan
    result = draw(model, [5] * 3, 5, samples=2, seeds=range(3))
    assert not result.lengths[1].any()
    kept = [0, 2]
    assert_same(*[BeamSearchResult(*[f[kept] for f in r]) for r in (result, sound)])


def test_values_that_cannot_be_meant_are_refused():
    for values, message in (
        ({"temperature": 0.0}, "--temperature must be at least 1e-06. Received: 0.0"),
        (
            {"temperature": np.inf},
            "--temperature must be a number. Received: inf",
        ),
        ({"top_p": 0.0}, "--top_p must be more than 0 and at most 1. Received: 0.0"),
        ({"top_p": 1.1}, "--top_p must be at most 1. Received: 1.1"),
    ):
        with pytest.raises(UserError, match=message.replace(".", r"\.")):
            Sampling(**values)
    model = TableModel.random(6, 2, 9)
    with pytest.raises(ValueError, match="Sampling needs seeds"):
        search(model, [3, 3], 3, sampling=Sampling())
    with pytest.raises(ValueError, match="a search takes none"):
        search(model, [3, 3], 3, options=RowOptions(seeds=np.array([1, 2])))
    with pytest.raises(ValueError, match="Sampling takes no beam sizes"):
        draw(
            model, [3, 3], 3, samples=2, seeds=[1, 2],
            options={"beam_sizes": np.array([1, 2])},
        )  # fmt: skip
