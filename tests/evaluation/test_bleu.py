"""sacreBLEU and chrF of a whole corpus: scores, argument order, signatures."""

import random
from importlib.metadata import version

import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import corpus_scores
from tests.reference import bleu_np


def random_corpus(seed: int) -> tuple[list[str], list[str]]:
    """Returns unequal pairs of lines of plain words, and one empty translation."""
    rng = random.Random(seed)
    references = [
        " ".join(rng.choices("eins zwei drei vier".split(), k=rng.randint(1, 11)))
        for _ in range(rng.randint(5, 20))
    ]
    hypotheses = [
        " ".join(word for word in line.split() if rng.random() < 0.8) + " fünf"
        for line in references
    ]
    hypotheses[0] = ""
    return hypotheses, references


def test_bleu_equals_the_definition():
    # Plain words, which tokenization does not change, and precisions above 0, so that
    # nothing is smoothed: the result must be plain BLEU.
    for seed in range(10):
        hypotheses, references = random_corpus(seed)
        candidates = [line.split() for line in hypotheses]
        targets = [line.split() for line in references]
        expected = bleu_np.corpus_bleu(candidates, targets)
        scores = corpus_scores(hypotheses, references)
        assert expected > 0, seed
        assert scores.bleu == pytest.approx(expected, abs=1e-9), seed
        assert scores.hypothesis_length == sum(map(len, candidates)), seed
        assert scores.reference_length == sum(map(len, targets)), seed
        # The equality above would catch swapped sides, and a mean of sentence scores.
        assert abs(corpus_scores(references, hypotheses).bleu - expected) > 1e-3, seed
        pairs = zip(candidates, targets, strict=True)
        sentence_scores = [bleu_np.corpus_bleu([c], [t]) for c, t in pairs]
        assert abs(sum(sentence_scores) / len(targets) - expected) > 1e-3, seed


def test_chrf_by_hand_weighs_recall_over_precision():
    # Precision and recall: 2 of 2 and 2 of 3 letters, 1 of 1 and 1 of 2 pairs. "abc"
    # has no counterpart of its length and is ignored. P = 1, R = 7/12, F2 = 7/11.
    assert corpus_scores(["ab"], ["abc"]).chrf == pytest.approx(100 * 7 / 11)
    # With swapped sides: P = 7/12, R = 1, F2 = 7/8.
    assert corpus_scores(["abc"], ["ab"]).chrf == pytest.approx(100 * 7 / 8)


def test_nothing_right_scores_zero_and_does_not_fail():
    for hypotheses, references in ((["x"], ["y"]), ([""], ["y"]), ([""], [""])):
        scores = corpus_scores(hypotheses, references)
        assert (scores.bleu, scores.chrf) == (0.0, 0.0)


def test_signatures_are_complete():
    scores = corpus_scores(["a b c d"], ["a b c d"])
    installed = version("sacrebleu")
    assert scores.bleu_signature == (
        f"BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{installed}"
    )
    assert scores.chrf_signature == (
        f"chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{installed}"
    )


def test_what_cannot_be_scored_is_refused():
    for hypotheses, references, error, message in (
        (["a", "b"], ["a", "b", "c"], UserError, "2 translations and 3 references"),
        (["a", "b", "c"], [], UserError, "3 translations and 0 references"),
        ([], [], UserError, "no sentence to score"),
        ("ab", ["a", "b"], ValueError, "hypotheses must be a sequence of sentences"),
        (["a", "b"], "ab", ValueError, "references must be a sequence of sentences"),
    ):
        with pytest.raises(error, match=message):
            corpus_scores(hypotheses, references)
