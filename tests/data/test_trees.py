"""English trees by hand, and what the grammar refuses."""

import random

import pytest
from grammar_ende.derivation import (
    Clause,
    Role,
    Statement,
    WhQuestion,
    YesNoQuestion,
)
from grammar_ende.english_clauses import sentence_tree
from grammar_ende.german_phrases import governed_case
from grammar_ende.lexicon import adverbials, modifiers
from grammar_ende.lexicon.tables import table_rows
from grammar_ende.sample_clauses import INTRANSITIVE, Wish, draw_clause
from grammar_ende.trees import read_tree

from tests.data import words

TREES = (
    (
        Statement(words.SLEEPS),
        "(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))",
    ),
    (
        Statement(Clause(words.HE, words.SLEEP, words.PAST, is_negated=True)),
        "(S (NP (PRP He)) (VP (VBD did) (RB not) (VP (VB sleep))) (. .))",
    ),
    (
        YesNoQuestion(Clause(words.THEY, words.SEE, words.PERFECT, direct=words.ANNA)),
        "(SQ (VBP Have) (NP (PRP they)) (VP (VBN seen) (NP (NNP Anna))) (. ?))",
    ),
    (
        WhQuestion(
            Clause(words.HE, words.SLEEP, words.PRESENT), Role.CAUSE, adverbials.WHY
        ),
        "(SBARQ (WHADVP (WRB Why)) (SQ (VBZ does) (NP (PRP he)) (VP (VB sleep))) "
        "(. ?))",
    ),
    (
        Statement(
            Clause(
                words.HE,
                words.CALL,
                words.PRESENT,
                modal=modifiers.WANT,
                direct=words.ME,
            )
        ),
        "(S (NP (PRP He)) (VP (VBZ wants) (S (VP (TO to) (VP (VB call) "
        "(NP (PRP me)))))) (. .))",
    ),
    (
        Statement(
            Clause(
                words.ANNA,
                words.KNOW,
                words.PRESENT,
                content=(
                    adverbials.THAT,
                    Clause(words.HE, words.GET_UP, words.PRESENT),
                ),
            )
        ),
        "(S (NP (NNP Anna)) (VP (VBZ knows) (SBAR (IN that) (S (NP (PRP he)) "
        "(VP (VBZ gets) (PRT (RP up)))))) (. .))",
    ),
)


def test_trees():
    for sentence, tree in TREES:
        assert str(sentence_tree(sentence)) == tree, tree


def test_brackets_are_read_back():
    text = "(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))"
    tree = read_tree(text)
    assert str(tree) == text
    assert [leaf.word for leaf in tree.leaves()] == ["The", "dog", "sleeps", "."]


@pytest.mark.parametrize("brackets", ["(NP (NN dog)", "(NN dog))", "dog", ""])
def test_broken_brackets_are_refused(brackets):
    with pytest.raises(ValueError, match=r"brackets must hold exactly one tree\. Rec"):
        read_tree(brackets)


def test_a_wish_that_nothing_grants_is_refused():
    wish = Wish(subject=words.the("city"))
    with pytest.raises(ValueError, match=r"wish must be one that some verb grants"):
        draw_clause(random.Random(1), (INTRANSITIVE,), wish)


def test_a_question_without_its_word_is_refused():
    with pytest.raises(ValueError, match=r"asked must be given for role Role\.DIRECT"):
        sentence_tree(
            WhQuestion(Clause(words.HE, words.SEE, words.PRESENT), Role.DIRECT, None)
        )


def test_a_missing_section_of_a_table_is_named():
    with pytest.raises(
        ValueError, match=r"section must be one of verbs\.txt.*'adverb'"
    ):
        table_rows("verbs.txt", "adverb")


def test_a_verb_without_its_preposition_is_refused():
    with pytest.raises(ValueError, match=r"preposition must be given\. Received: None"):
        governed_case(None)
