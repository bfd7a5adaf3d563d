"""Draws relative clauses and hangs them on a subject or an object."""

import dataclasses
import random
from collections.abc import Callable
from typing import TypeGuard

from grammar_ende.derivation import (
    Clause,
    NounPhrase,
    RelativeClause,
    Role,
    Tense,
    is_definite,
)
from grammar_ende.lexicon import modifiers
from grammar_ende.lexicon.entries import Verb
from grammar_ende.sample_clauses import (
    COPULAR,
    DATIVE,
    INTRANSITIVE,
    PREPOSITIONAL,
    TRANSITIVE,
    Pattern,
    Wish,
    draw_clause,
)
from grammar_ende.sample_nominals import PERSON, weighted

_TENSES = (Tense.PRESENT, Tense.PAST, Tense.PERFECT)
_ROLES = (
    (Role.SUBJECT, 50),
    (Role.DIRECT, 28),
    (Role.RECIPIENT, 8),
    (Role.OBLIQUE, 14),
)


def with_relative(rng: random.Random, clause: Clause) -> Clause | None:
    """Returns the clause with a relative clause on its object or its subject.

    An object is described only where nothing follows it in English; German then
    puts the description behind the last verb. None if neither noun can carry one.
    """
    plain = dataclasses.replace(
        clause, time=None, manner=None, company=None, place=None, cause=None
    )
    if clause.is_negated or clause.oblique is not None:
        return None
    if _can_carry(clause.direct) and not _follows_direct(clause):
        described = _described(rng, clause.direct)
        return dataclasses.replace(plain, direct=described)
    if _can_carry(clause.subject):
        return dataclasses.replace(plain, subject=_described(rng, clause.subject))
    return None


def _can_carry(nominal: object) -> TypeGuard[NounPhrase]:
    if not isinstance(nominal, NounPhrase) or nominal.possessor is not None:
        return False
    return is_definite(nominal) or nominal.determiner == modifiers.A


def _follows_direct(clause: Clause) -> bool:
    verb = clause.verb
    return bool(verb.en_preposition and clause.recipient is not None)


def _described(rng: random.Random, phrase: NounPhrase) -> NounPhrase:
    role = weighted(rng, _ROLES)
    patterns = _patterns(role, phrase)
    if not patterns:
        role = Role.SUBJECT
        patterns = _patterns(role, phrase)
    subject = phrase if role is Role.SUBJECT else None
    tense = rng.choice(_TENSES)
    wish = Wish(subject, tense, allows_negation=False, allows_adverbials=False)
    while True:
        clause = draw_clause(rng, patterns, wish)
        # Nobody else in the description may be the noun that it describes.
        if role is Role.SUBJECT or not _mentions(clause, phrase):
            break
    emptied = {
        Role.DIRECT: {"direct": None},
        Role.RECIPIENT: {"recipient": None},
        Role.OBLIQUE: {"oblique": None},
    }.get(role, {})
    relative = RelativeClause(role, dataclasses.replace(clause, **emptied))
    return dataclasses.replace(phrase, relative=relative)


def _patterns(role: Role, phrase: NounPhrase) -> tuple[Pattern, ...]:
    """Returns the patterns whose verbs can have the noun in that role."""
    groups = phrase.noun.groups
    if role is Role.SUBJECT:
        patterns = (INTRANSITIVE, TRANSITIVE, COPULAR)
        return _with_verbs(patterns, lambda verb: bool(verb.subjects & groups))
    if role is Role.DIRECT:
        return _with_verbs(
            (TRANSITIVE,),
            lambda verb: bool(verb.objects & groups) and not verb.en_preposition,
        )
    if role is Role.RECIPIENT:
        return _with_verbs(
            (DATIVE,),
            lambda verb: (
                bool(verb.objects & groups & PERSON) and not verb.en_preposition
            ),
        )
    return _with_verbs(
        (PREPOSITIONAL,), lambda verb: bool(verb.objects & groups & PERSON)
    )


def _with_verbs(
    patterns: tuple[Pattern, ...], accepts: Callable[[Verb], bool]
) -> tuple[Pattern, ...]:
    narrowed = [
        each._replace(verbs=tuple(filter(accepts, each.verbs))) for each in patterns
    ]
    return tuple(each for each in narrowed if each.verbs)


def _mentions(clause: Clause, phrase: NounPhrase) -> bool:
    subject = clause.subject
    return isinstance(subject, NounPhrase) and subject.noun == phrase.noun
