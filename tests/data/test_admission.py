"""Excluded clauses of grammar_ende: those that are ambiguous or meaningless."""

import dataclasses

from grammar_ende.admission import can_be_said
from grammar_ende.derivation import Clause, NounPhrase, Pair
from grammar_ende.lexicon import modifiers

from tests.data import words
from tests.data.words import ANNA, ME, PAST, PERFECT, PRESENT, READ, SEE, SLEEP, YOU

_THEY_READ = Clause(words.THEY, READ, PRESENT, direct=words.the("book"))
_NOT_ASLEEP = Clause(ANNA, SLEEP, PRESENT, is_negated=True)


def test_they_read_is_not_said_of_the_past():
    # "They read" is the same word in both tenses; the perfect tells them apart.
    assert can_be_said(_THEY_READ)
    assert can_be_said(dataclasses.replace(_THEY_READ, tense=PERFECT))
    assert not can_be_said(dataclasses.replace(_THEY_READ, tense=PAST))


def test_du_has_the_simple_past_of_sein_only():
    assert not can_be_said(Clause(YOU, SLEEP, PAST))
    assert can_be_said(Clause(YOU, SLEEP, PERFECT))
    assert can_be_said(Clause(YOU, words.BE, PAST))
    assert can_be_said(Clause(words.THEY, SLEEP, PAST))


SAME_PEOPLE = (
    (ME, ME),
    (ME, modifiers.WE),
    (ANNA, ANNA),
    (words.the("man"), words.a("man")),
    (Pair(ANNA, words.the("man")), ANNA),
    (ANNA, words.the("car", possessor=ANNA)),
)


def test_no_one_acts_on_himself():
    for subject, direct in SAME_PEOPLE:
        clause = Clause(subject, SEE, PRESENT, direct=direct)
        assert not can_be_said(clause), clause


OTHER_PEOPLE = ((ME, YOU), (words.HE, words.SHE), (ANNA, words.a("man")))


def test_people_act_on_others():
    for subject, direct in OTHER_PEOPLE:
        clause = Clause(subject, SEE, PRESENT, direct=direct)
        assert can_be_said(clause), clause


QUANTITIES = (
    words.a("man"),
    NounPhrase(modifiers.ALL, words.noun_entry("man"), True),
    NounPhrase(modifiers.EVERY, words.noun_entry("man")),
    NounPhrase(modifiers.THE, words.noun_entry("man"), True, number=3),
)


def test_not_is_not_said_beside_a_quantity():
    # "All men do not sleep": none of them, or not all?
    assert can_be_said(_NOT_ASLEEP)
    assert can_be_said(dataclasses.replace(_NOT_ASLEEP, subject=words.the("man")))
    for subject in QUANTITIES:
        clause = dataclasses.replace(_NOT_ASLEEP, subject=subject)
        assert not can_be_said(clause), subject


def test_animals_have_no_likings():
    likes = Clause(ANNA, SLEEP, PRESENT, likes=True)
    assert can_be_said(likes)
    assert not can_be_said(dataclasses.replace(likes, subject=words.the("dog")))
