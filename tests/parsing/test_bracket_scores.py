import pytest
from hypothesis import given

from t2t_keras.errors import UserError
from t2t_keras.parsing.bracket_scores import (
    ERROR,
    SKIPPED,
    VALID,
    SentenceScore,
    sentence_scores,
    sum_scores,
)
from t2t_keras.parsing.trees import Tree, read_trees
from tests.parsing.random_trees import TREES


def score_pair(gold: str, test: str) -> SentenceScore:
    (score,) = sentence_scores(read_trees([gold]), read_trees([test]))
    return score


def test_worked_out_by_hand():
    # Of S(0,5) NP(0,2) VP(2,5) NP(3,5), only S matches. A bracket that crosses several
    # others counts as one crossing bracket.
    score = score_pair(
        "(S (NP (A a) (B b)) (VP (C c) (NP (D d) (E e))) (. .))",
        "(S (X (A a) (B b) (C c)) (X (D d)) (X (E E)) (. .))".replace("(E E)", "(X e)"),
    )
    assert score == SentenceScore(
        VALID, length=6, matched=1, gold=4, test=4, crossing=1, words=5, tags=4
    )
    assert not score.complete


# Gold tree, test tree, and numbers of brackets: matched, gold, test.
MATCHED_BY_HAND = (
    # The smaller number of equal brackets.
    ("(NP (NP (NP (NN a))))", "(NP (NP (NN a)))", 2, 3, 2),
    # ADVP and PRT are equal, once each.
    ("(S (ADVP (PRT (NN a))))", "(S (PRT (NN a)))", 2, 3, 2),
    ("(S-1 (NP=2 (NN a)))", "(S (NP-SBJ (NN a)))", 2, 2, 2),
    # A bracket over only punctuation does not count; punctuation beside it is ignored.
    ("(S (NP (NN a)) (X (, ,)))", "(S (NP (NN a) (, ,)))", 2, 2, 2),
    ("(TOP (S (NN a)))", "(S (TOP (NN a)))", 1, 1, 1),
    ("(S (NN a))", "(NP (NN a))", 0, 1, 1),
)


def test_which_brackets_match():
    for gold, test, *numbers in MATCHED_BY_HAND:
        score = score_pair(gold, test)
        actual = [score.matched, score.gold, score.test]
        assert actual == numbers, (gold, test)


FAULTS_BY_HAND = (
    ("(S (NN a))", "(S (NN b))", ERROR, "Words unmatch (a|b)"),
    ("(S (NN a) (. .))", "(S (NN a) (NN .))", ERROR, "Length unmatch (1|2)"),
    # A sentence of only punctuation is skipped, on either side.
    ("(S (. .))", "(S (. .))", SKIPPED, ""),
    ("(S (NN a))", "(())", SKIPPED, ""),
    ("(S (. a))", "(S (NN a))", ERROR, "Length unmatch (0|1)"),
    # Words must be equal, including case; punctuation is not compared.
    ("(S (NN a))", "(S (NN A))", ERROR, "Words unmatch (a|A)"),
    ("(S (NN a) (. !))", "(S (NN a) (. ?))", VALID, ""),
)


def test_sentences_that_do_not_count():
    for row in FAULTS_BY_HAND:
        gold, test, status, fault = row
        score = score_pair(gold, test)
        assert (score.status, score.fault) == (status, fault), row
        assert status == VALID or score.gold == score.test == score.words == 0, row


def test_a_sentence_without_a_tree_is_skipped():
    (score,) = sentence_scores([Tree("S", (Tree("NN", word="a"),))], [None])
    assert score == SentenceScore(SKIPPED, length=1)


@given(TREES)
def test_a_tree_matches_itself(tree):
    (score,) = sentence_scores([tree], [tree])
    assert score.complete and score.crossing == 0
    assert (score.status == VALID) == bool(score.words)
    assert score.tags == score.words


def test_sums_and_percentages():
    # 3 of 5 and 3 of 4 brackets: recall 60, precision 75, F1 2 * 3 / (5 + 4).
    scores = sum_scores(
        [
            SentenceScore(
                VALID, 3, matched=2, gold=4, test=2, crossing=2, words=3, tags=1
            ),
            SentenceScore(ERROR, 9),
            SentenceScore(VALID, 1, matched=1, gold=1, test=1, words=1, tags=1),
            SentenceScore(SKIPPED, 2),
            SentenceScore(VALID, 4, test=1, crossing=3, words=4, tags=4),
        ]
    )
    assert (scores.recall, scores.precision) == (60.0, 75.0)
    assert scores.f1 == pytest.approx(200 * 3 / (5 + 4))
    assert scores.tagging == 75.0
    assert (scores.sentences, scores.valid, scores.errors, scores.skipped) == (
        5,
        3,
        1,
        1,
    )
    assert (scores.complete, scores.without_crossing, scores.few_crossings) == (1, 1, 2)
    assert sum_scores([]).f1 == 0.0


def test_too_many_errors_stop_the_scoring_as_in_evalb():
    right, wrong = (Tree("S", (Tree("NN", word=word),)) for word in "ab")
    assert len(list(sentence_scores([right] * 11, [wrong] * 11))) == 11
    with pytest.raises(UserError, match=r"Sentence 14 is number 12 .*\(a\|b\).*split"):
        list(sentence_scores([right] * 20, [right, right, *[wrong] * 18]))
    assert len(list(sentence_scores([right] * 20, [wrong] * 20, None))) == 20


@pytest.mark.parametrize(
    ("gold", "test", "first"), [(3, 2, "3 right"), (1, 2, "2 found")]
)
def test_sides_of_unequal_length(gold, test, first):
    tree = Tree("S", (Tree("NN", word="a"),))
    with pytest.raises(
        UserError, match=f"{first} trees or more, but {min(gold, test)} "
    ):
        list(sentence_scores([tree] * gold, [tree] * test))
