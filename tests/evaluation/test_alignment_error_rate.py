"""Alignment error rate, against matrices of links and an example counted by hand."""

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.alignment_error_rate import score_alignments
from t2t_keras.text.word_alignments import WordAlignment, parse_alignment


def aligned(*lines):
    return [parse_alignment(line, "") for line in lines]


def test_an_example_counted_by_hand():
    found = aligned("0-0 1-1 2-1 3-3", "", "0-1")
    gold = aligned("0-0 2-2 3-3 1p1 1p2", "0-0", "")
    scores = score_alignments(found, gold)
    # A: 5 links; S: 0-0 2-2 3-3 0-0; of A, 0-0 and 3-3 are sure, and 1-1 is possible.
    assert (scores.links, scores.sure_links, scores.possible_links) == (5, 4, 6)
    assert scores.precision == pytest.approx(100 * 3 / 5)
    assert scores.recall == pytest.approx(100 * 2 / 4)
    assert scores.error_rate == pytest.approx(100 * (1 - (2 + 3) / (5 + 4)))
    lines = scores.describe().splitlines()
    assert lines[0] == "3 sentences, 5 links, 4 sure gold links, 2 possible"
    assert [line.split() for line in lines[1:]] == [
        ["AER", "44.44"],
        ["precision", "60.00"],
        ["recall", "50.00"],
    ]
    assert scores.as_dict()["aer"] == scores.error_rate


def test_scores_are_those_of_matrices_over_the_corpus():
    generator = np.random.default_rng(5)
    for _ in range(20):
        shapes = generator.integers(1, 6, (7, 2))
        kinds = [
            (generator.random((3, *shape)) < density)
            for shape, density in zip(shapes, generator.random(7), strict=True)
        ]
        found, gold = [], []
        counts = np.zeros(4)
        for a, s, p in kinds:
            p = p | s
            counts += a.sum(), s.sum(), (a & s).sum(), (a & p).sum()
            links = [
                frozenset(zip(*np.nonzero(each), strict=True)) for each in (a, s, p)
            ]
            found.append(WordAlignment(links[0]))
            gold.append(WordAlignment(links[1], links[2] - links[1]))
        links, sure, sure_hits, hits = counts
        scores = score_alignments(found, gold)
        assert scores.error_rate == pytest.approx(
            100 - 100 * (sure_hits + hits) / (links + sure)
        )
        assert scores.precision == pytest.approx(100 * hits / links if links else 100)
        assert scores.recall == pytest.approx(100 * sure_hits / sure if sure else 100)


def test_equal_alignments_are_perfect_and_others_the_worst():
    gold = aligned("0-1 2-2", "1-1")
    assert score_alignments(gold, gold).error_rate == 0
    assert score_alignments(aligned("1-0", ""), gold).error_rate == 100
    assert score_alignments(aligned("", ""), gold).recall == 0


def test_a_rate_without_links_is_refused():
    with pytest.raises(UserError, match="Neither the alignments nor the gold"):
        score_alignments(aligned("", ""), aligned("", "0p0"))
    with pytest.raises(ValueError, match="zip"):
        score_alignments(aligned(""), aligned("", "0-0"))
