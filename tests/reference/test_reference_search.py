"""Reference search and reference Adam against values worked out by hand."""

import numpy as np
import pytest

from tests.reference import adam_np, search_np, transformer_np
from tests.reference.weights_np import random_weights

A, B = 2, 3


def greedy_trap(prefix: tuple[int, ...]) -> np.ndarray:
    """Model in which A is the best first token, with unlikely continuations."""
    table = {(): [0.0, 0.1, 0.5, 0.4], (A,): [0, 0.4, 0.3, 0.3], (B,): [0, 0.9, 0.1, 0]}
    with np.errstate(divide="ignore"):
        return np.log(table.get(prefix, [0.0, 0.7, 0.2, 0.1]))


def test_length_penalty_by_hand() -> None:
    penalties = [search_np.length_penalty(n, a) for n, a in [(1, 9), (7, 1), (19, 0.5)]]
    np.testing.assert_allclose(penalties, [1.0, 2.0, 2.0])
    assert search_np.length_penalty(40, 0.0) == 1.0


def test_exhaustive_search_by_hand() -> None:
    found = search_np.exhaustive_search(greedy_trap, 4, max_length=2, alpha=0.0)
    # EOS, A EOS, B EOS: 0.1, 0.5 * 0.4, 0.4 * 0.9.
    assert [one.tokens for one in found] == [(B, 1), (A, 1), (1,)]
    np.testing.assert_allclose(
        [one.log_prob for one in found], np.log([0.36, 0.2, 0.1])
    )
    assert [one.score for one in found] == [one.log_prob for one in found]


def test_exhaustive_search_prefers_length_as_alpha_grows() -> None:
    best = []
    for alpha in (0.0, 3.0):
        # 0.5 at once; 0.4 * 0.9 = 0.36 by way of B.
        def step(prefix: tuple[int, ...]) -> np.ndarray:
            row = [1e-9, 0.9, 0.05, 0.05] if prefix else [1e-9, 0.5, 0.1, 0.4]
            return np.log(row)

        best.append(search_np.exhaustive_search(step, 4, 2, alpha)[0])
    assert [one.tokens for one in best] == [(1,), (B, 1)]
    np.testing.assert_allclose(best[1].score, np.log(0.36) / (7 / 6) ** 3)


@pytest.mark.parametrize("max_length", [1, 2, 4])
def test_exhaustive_search_finds_every_sentence_once(max_length: int) -> None:
    rng = np.random.default_rng(3)
    rows: dict[tuple[int, ...], np.ndarray] = {}

    def step(prefix: tuple[int, ...]) -> np.ndarray:
        if prefix not in rows:
            row = rng.dirichlet(np.ones(5)) + 1e-3
            row[0] = 1e-30  # padding is never generated
            if len(prefix) == max_length - 1:
                row[2:] = 1e-30  # EOS is certain where the search must end
            rows[prefix] = np.log(row / row.sum())
        return rows[prefix]

    found = search_np.exhaustive_search(step, 5, max_length, alpha=0.7)
    assert len({one.tokens for one in found}) == len(found)
    assert len(found) == sum(3**words for words in range(max_length))
    # Leaving out or doubling any sentence would break the sum of probabilities.
    np.testing.assert_allclose(sum(np.exp(one.log_prob) for one in found), 1.0)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)


def test_exhaustive_search_leaves_out_the_impossible_and_honors_its_ids() -> None:
    found = search_np.exhaustive_search(greedy_trap, 4, max_length=3, alpha=0.0)
    assert (B, B, 1) not in [one.tokens for one in found]
    assert len(found) == 1 + 2 + 3
    ends_in_a = search_np.exhaustive_search(greedy_trap, 4, 2, 0.0, eos=A, never={0, 1})
    assert [one.tokens for one in ends_in_a] == [(A,), (B, A)]


def test_greedy_by_hand() -> None:
    greedy = search_np.greedy_decode(greedy_trap, max_length=4, alpha=1.0)
    assert greedy.tokens == (A, 1)
    np.testing.assert_allclose(greedy.log_prob, np.log(0.2))
    np.testing.assert_allclose(greedy.score, np.log(0.2) * 6 / 7)
    cut = search_np.greedy_decode(greedy_trap, max_length=1)
    assert cut.tokens == (1,)
    np.testing.assert_allclose(cut.log_prob, np.log(0.1))


def test_greedy_never_generates_padding_and_takes_the_lowest_of_equals() -> None:
    def step(prefix: tuple[int, ...]) -> np.ndarray:
        return np.log([0.6, 0.1, 0.15, 0.15])

    assert search_np.greedy_decode(step, max_length=3).tokens == (A, A, 1)


def test_the_model_scores_a_translation_as_its_teacher_forced_pass_does() -> None:
    weights = random_weights(np.random.default_rng(4))
    source, target = [4, 9, 1, 0, 0], [7, 3, 12, 1]
    step = search_np.model_log_probs(source, weights)
    logits = transformer_np.transformer(
        source, transformer_np.shift_right(target), weights
    )
    costs = transformer_np.label_smoothed_cross_entropy(logits, target, 0.0)
    actual = search_np.score_tokens(tuple(target), step, alpha=0.6)
    np.testing.assert_allclose(actual.log_prob, -costs.sum())
    np.testing.assert_allclose(actual.score, -costs.sum() / 1.5**0.6)


def test_adam_by_hand() -> None:
    # beta_1 = 0.5, beta_2 = 0.75, gradients 2 then -1, epsilon 1, rate 1.
    adam = adam_np.Adam(beta_1=0.5, beta_2=0.75, epsilon=1.0)
    gradients, rates = [np.array([2.0]), np.array([-1.0])], [1.0, 1.0]
    # m: 1, 0, corrected 2, 0. v: 1, 1, corrected 4, 16/7.
    # Step 1: 2 / (2 + 1). Reordered: (0.5 / 0.5) * 1 / (1 + 1). Step 2: m = 0.
    plain = adam_np.trajectory(
        adam_np.algorithm_1, np.array([10.0]), gradients, rates, adam
    )
    np.testing.assert_allclose(plain, [[10 - 2 / 3], [10 - 2 / 3]])
    reordered = adam_np.trajectory(
        adam_np.reordered, np.array([10.0]), gradients, rates, adam
    )
    np.testing.assert_allclose(reordered, [[9.5], [9.5]])


def test_adam_second_step_by_hand() -> None:
    # Gradients 2 and 4, no epsilon: m 1, 2.5 (corrected 10/3), v 1, 4.75 (76/7).
    adam = adam_np.Adam(beta_1=0.5, beta_2=0.75, epsilon=0.0)
    gradients = [np.array([2.0]), np.array([4.0])]
    expected = [[-0.1], [-0.1 - 0.2 * (10 / 3) / np.sqrt(76 / 7)]]
    for update in (adam_np.algorithm_1, adam_np.reordered):
        actual = adam_np.trajectory(update, np.zeros(1), gradients, [0.1, 0.2], adam)
        np.testing.assert_allclose(actual, expected)


def test_the_two_adams_differ_by_the_stated_epsilon() -> None:
    rng = np.random.default_rng(5)
    adam, gradients = adam_np.Adam(epsilon=1e-3), rng.normal(size=(6, 4, 3)) * 1e-3
    one = other = adam_np.start(rng.normal(size=(4, 3)))
    for step, gradient in enumerate(gradients, start=1):
        unchanged = adam_np.algorithm_1(other, gradient, 0.01, adam)
        one = adam_np.reordered(one, gradient, 0.01, adam)
        grown = 1e-3 / np.sqrt(1 - adam.beta_2**step)
        other = adam_np.algorithm_1(other, gradient, 0.01, adam_np.Adam(epsilon=grown))
        np.testing.assert_allclose(one.parameter, other.parameter, rtol=1e-12)
        assert np.abs(unchanged.parameter - one.parameter).max() > 1e-4


def test_adam_defaults_are_those_of_the_paper() -> None:
    assert adam_np.Adam() == adam_np.Adam(beta_1=0.9, beta_2=0.98, epsilon=1e-9)
