"""Admission of clauses: those that both languages express, with one translation."""

from grammar_ende.derivation import (
    Clause,
    Nominal,
    NounPhrase,
    Tense,
    is_definite,
    is_plural,
    names_in,
    person,
)
from grammar_ende.lexicon import modifiers, verbs
from grammar_ende.lexicon.entries import Pronoun

_QUANTIFIERS = (
    modifiers.EVERY,
    modifiers.ALL,
    modifiers.MANY,
    modifiers.SOME,
    modifiers.NO,
)


def can_be_said(clause: Clause) -> bool:
    """Returns whether both languages express the clause, each in one way."""
    return (
        _tense_is_visible(clause)
        and _persons_differ(clause)
        and (not clause.is_negated or _negation_is_clear(clause))
        and not (clause.likes and not _is_person(clause.subject))
    )


def _tense_is_visible(clause: Clause) -> bool:
    """Returns whether the past shows in English and is usual in German.

    `They read` is present or past; German says `du hast gesehen`, not `du sahst`.
    """
    verb, subject = clause.verb, clause.subject
    if clause.tense is Tense.PERFECT and verb.is_stative:
        return verb in verbs.COPULAS
    if clause.tense is not Tense.PAST or clause.modal is not None:
        return True
    if verb.en_past == verb.en:
        return False
    is_second = person(subject) == 2 and not is_plural(subject)
    return not is_second or verb.de in ("sein", "haben")


def _persons_differ(clause: Clause) -> bool:
    """Returns whether nobody acts on himself, which needs a reflexive pronoun."""
    oblique = clause.oblique.nominal if clause.oblique else None
    others = [clause.direct, clause.recipient, oblique]
    if clause.company is not None:
        others.append(clause.company.nominal)
    if clause.quality is not None:
        others.append(clause.quality.standard)
    present = [each for each in others if each is not None]
    if any(each == clause.subject for each in present):
        return False
    persons = [each for each in [clause.subject, *present] if isinstance(each, Pronoun)]
    first_or_second = [each.person for each in persons if each.person != 3]
    if len(first_or_second) != len(set(first_or_second)):
        return False
    nouns = [names_in(each) for each in [clause.subject, *present]]
    flat = [name for names in nouns for name in names]
    return len(flat) == len(set(flat))


def _negation_is_clear(clause: Clause) -> bool:
    """Returns whether "not" has one reading, which a number beside it would prevent."""
    for nominal in (clause.subject, clause.direct, clause.recipient):
        if isinstance(nominal, NounPhrase) and (
            nominal.number is not None or nominal.determiner in _QUANTIFIERS
        ):
            return False
    subject = clause.subject
    if isinstance(subject, NounPhrase) and not is_definite(subject):
        return False
    oblique = clause.oblique
    return oblique is None or is_definite(oblique.nominal)


def _is_person(nominal: Nominal) -> bool:
    if isinstance(nominal, NounPhrase):
        return "person" in nominal.noun.groups
    return True
