"""BLEU reference against numbers worked out by hand or printed in the paper."""

import math
from fractions import Fraction

import pytest

from tests.reference import bleu_np


def test_clipping_example_of_the_paper():
    # Papineni et al., section 2.1, example 2: unclipped, this would be 7/7.
    candidate = "the the the the the the the".split()
    reference = "the cat is on the mat".split()
    assert bleu_np.modified_precision([candidate], [reference], 1) == Fraction(2, 7)


def test_precision_sums_over_the_corpus_before_it_divides():
    candidates = [["a"], ["b", "c", "d"]]
    references = [["a"], ["x", "y", "d"]]
    # A mean of sentence precisions would be (1/1 + 1/3) / 2 = 2/3.
    assert bleu_np.modified_precision(candidates, references, 1) == Fraction(2, 4)


def test_precision_without_any_ngram_is_zero():
    assert bleu_np.modified_precision([["a"]], [["a", "b"]], 2) == 0


@pytest.mark.parametrize(
    ("candidate_length", "reference_length", "penalty"),
    [(5, 4, 1.0), (4, 4, 1.0), (4, 5, math.exp(-1 / 4)), (0, 5, 0.0), (0, 0, 0.0)],
)
def test_brevity_penalty(candidate_length, reference_length, penalty):
    candidate, reference = ["a"] * candidate_length, ["a"] * reference_length
    assert bleu_np.brevity_penalty([candidate], [reference]) == pytest.approx(penalty)


def test_bleu_by_hand():
    candidate = "the old man sat on the bank".split()
    reference = "an old man sat on a bank today".split()
    # Words: old man sat on bank of 7. Pairs: 3 of 6. Triples: 2 of 5. Fours: 1 of 4.
    product = (5 / 7) * (3 / 6) * (2 / 5) * (1 / 4)
    expected = 100 * math.exp(1 - 8 / 7) * product**0.25
    assert bleu_np.corpus_bleu([candidate], [reference]) == pytest.approx(expected)


def test_bleu_is_zero_if_any_precision_is():
    # Three of three match, but there is no 4-gram.
    assert bleu_np.corpus_bleu([["a", "b", "c"]], [["a", "b", "c"]]) == 0.0
