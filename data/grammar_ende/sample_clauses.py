"""Draws clauses: a verb, its complements, tense and modal, negation, adverbials."""

import dataclasses
import random
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from grammar_ende.admission import can_be_said
from grammar_ende.derivation import (
    Clause,
    Nominal,
    NounPhrase,
    Oblique,
    Quality,
    Tense,
)
from grammar_ende.lexicon import adverbials, modifiers, verbs
from grammar_ende.lexicon.entries import Adjective, Pronoun, Verb
from grammar_ende.sample_adverbials import with_adverbials
from grammar_ende.sample_nominals import (
    PERSON,
    adjectives_for,
    draw_definite,
    draw_definite_phrase,
    draw_destination,
    draw_name,
    draw_nominal,
    draw_number,
    draw_place,
    draw_surface,
    weighted,
)

Completion: TypeAlias = Callable[[random.Random, Clause], Clause]
# One draw in three is refused; so many in a row mean a wish that cannot be granted.
_MAX_DRAWS = 10_000


class Pattern(NamedTuple):
    """Verbs that take the same complements, and the function that draws those."""

    verbs: tuple[Verb, ...]
    complete: Completion
    weight: float


class Wish(NamedTuple):
    """Conditions of the surrounding sentence on a clause.

    `tense` None leaves tense and modal open; `subject` None leaves the subject open.
    """

    subject: Nominal | None = None
    tense: Tense | None = None
    allows_negation: bool = True
    allows_adverbials: bool = True


def draw_clause(
    rng: random.Random, patterns: tuple[Pattern, ...], wish: Wish
) -> Clause:
    """Returns a clause of one of the patterns that grants the wish.

    A draw that cannot be said in both languages is drawn again, with the wish kept.

    Raises:
        ValueError: if no draw grants the wish.
    """
    for _ in range(_MAX_DRAWS):
        pattern = weighted(rng, [(each, each.weight) for each in patterns])
        verb = rng.choice(pattern.verbs)
        subject = wish.subject
        if subject is None:
            subject = draw_nominal(rng, verb.subjects)
        elif not _can_be_subject(subject, verb):
            continue
        clause = _with_tense(rng, Clause(subject, verb, Tense.PRESENT), wish.tense)
        clause = pattern.complete(rng, clause)
        if wish.allows_negation and rng.random() < 0.14:
            clause = dataclasses.replace(clause, is_negated=True)
        clause = _negation_settled(clause)
        if wish.allows_adverbials:
            clause = with_adverbials(rng, clause)
        if can_be_said(clause):
            return clause
    raise ValueError(f"wish must be one that some verb grants. Received: {wish}")


def copular(rng: random.Random, clause: Clause) -> Clause:
    """Returns the clause with a quality of its subject."""
    subject = clause.subject
    groups = subject.noun.groups if isinstance(subject, NounPhrase) else PERSON
    adjective = rng.choice(adjectives_for(groups))
    return dataclasses.replace(clause, quality=draw_quality(rng, groups, adjective))


def draw_quality(
    rng: random.Random, groups: frozenset[str], adjective: Adjective
) -> Quality:
    """Returns the adjective plain, with a degree, compared, or turned into an age."""
    kind = weighted(rng, (("", 45), ("degree", 18), ("compared", 30), ("age", 10)))
    if kind == "degree":
        return Quality(adjective, degree=rng.choice(adverbials.DEGREES))
    if kind == "compared" and adjective.de_comparative != "-":
        comparable = frozenset(adjective.groups & groups)
        standard: Nominal = draw_definite_phrase(rng, comparable)
        if groups & PERSON and rng.random() < 0.3:
            standard = draw_name(rng)
        return Quality(adjective, standard=standard, is_equal=rng.random() < 0.35)
    if kind == "age" and groups & PERSON:
        old = next(each for each in modifiers.ADJECTIVES if each.en == "old")
        return Quality(old, years=draw_number(rng))
    return Quality(adjective)


def _bare(rng: random.Random, clause: Clause) -> Clause:
    return clause


def _with_direct(rng: random.Random, clause: Clause) -> Clause:
    return dataclasses.replace(clause, direct=draw_nominal(rng, clause.verb.objects))


def _with_recipient(rng: random.Random, clause: Clause) -> Clause:
    recipient = draw_definite(rng, clause.verb.objects)
    return dataclasses.replace(clause, recipient=recipient)


def _with_both(rng: random.Random, clause: Clause) -> Clause:
    direct = draw_nominal(rng, clause.verb.objects)
    recipient = draw_definite(rng, PERSON)
    return dataclasses.replace(clause, direct=direct, recipient=recipient)


def _with_prepositional(rng: random.Random, clause: Clause) -> Clause:
    verb = clause.verb
    if verb.preposition is None:
        raise ValueError(f"{verb.en} must have a German preposition. Received: None")
    nominal = draw_nominal(rng, verb.objects)
    preposition = verb.preposition._replace(en=verb.en_preposition)
    return dataclasses.replace(clause, oblique=Oblique(preposition, nominal))


def _with_destination(rng: random.Random, clause: Clause) -> Clause:
    return dataclasses.replace(clause, oblique=draw_destination(rng))


def _with_position(rng: random.Random, clause: Clause) -> Clause:
    return dataclasses.replace(clause, oblique=draw_place(rng))


def _resting(rng: random.Random, clause: Clause) -> Clause:
    preposition = rng.choice((modifiers.ON, *modifiers.PLACE_PREPOSITIONS))
    return dataclasses.replace(clause, oblique=draw_surface(rng, preposition))


def _placing(rng: random.Random, clause: Clause) -> Clause:
    goal = draw_surface(rng, modifiers.ONTO)
    direct = draw_nominal(rng, clause.verb.objects)
    return dataclasses.replace(clause, direct=direct, oblique=goal)


INTRANSITIVE = Pattern(verbs.INTRANSITIVE, _bare, 16)
TRANSITIVE = Pattern(verbs.TRANSITIVE, _with_direct, 36)
COPULAR = Pattern(verbs.COPULAS, copular, 15)
DATIVE = Pattern(verbs.DATIVE, _with_recipient, 7)
PREPOSITIONAL = Pattern(verbs.PREPOSITIONAL, _with_prepositional, 9)
MOTION = Pattern(verbs.MOTION, _with_destination, 6)
POSITION = Pattern(verbs.POSITION, _with_position, 3)
SIMPLE_PATTERNS: tuple[Pattern, ...] = (
    INTRANSITIVE,
    TRANSITIVE,
    COPULAR,
    DATIVE,
    Pattern(verbs.DITRANSITIVE, _with_both, 9),
    PREPOSITIONAL,
    MOTION,
    POSITION,
    Pattern(verbs.RESTING, _resting, 4),
    Pattern(verbs.PLACING, _placing, 4),
)
WEATHER_PATTERNS: tuple[Pattern, ...] = (Pattern(verbs.WEATHER, _bare, 1),)


def _can_be_subject(subject: Nominal, verb: Verb) -> bool:
    if isinstance(subject, NounPhrase):
        return bool(subject.noun.groups & verb.subjects)
    # A pronoun for a thing may have qualities and nothing else.
    if isinstance(subject, Pronoun) and subject.en_subject == "it":
        return verb in verbs.COPULAS or not verb.subjects
    return "person" in verb.subjects


def _with_tense(rng: random.Random, clause: Clause, wish: Tense | None) -> Clause:
    """Returns the clause in the tense asked for, or in one that its verb allows."""
    if wish is not None:
        return dataclasses.replace(clause, tense=wish)
    if clause.verb.is_stative:
        tense = weighted(
            rng, ((Tense.PRESENT, 55), (Tense.PAST, 33), (Tense.PERFECT, 12))
        )
        return dataclasses.replace(clause, tense=tense)
    kind = weighted(
        rng,
        (
            (Tense.PRESENT, 28),
            (Tense.PAST, 23),
            (Tense.PERFECT, 20),
            (Tense.FUTURE, 9),
            ("modal", 16),
            ("likes", 4),
        ),
    )
    if isinstance(kind, Tense):
        return dataclasses.replace(clause, tense=kind)
    if kind == "likes" and "person" in clause.verb.subjects:
        return dataclasses.replace(clause, likes=True)
    return dataclasses.replace(clause, modal=rng.choice(modifiers.MODALS_AFFIRMED))


def _negation_settled(clause: Clause) -> Clause:
    """Returns the clause with German `kein` and the modal that negation calls for."""
    if not clause.is_negated:
        if clause.modal in (modifiers.MUST_NOT, modifiers.HAVE_TO):
            return dataclasses.replace(clause, modal=modifiers.MUST)
        return clause
    direct = clause.direct
    if isinstance(direct, NounPhrase) and direct.number is None:
        replaced = {modifiers.A: modifiers.NOT_A, modifiers.BARE: modifiers.NOT_BARE}
        determiner = replaced.get(direct.determiner)
        if determiner is not None and direct.possessor is None:
            direct = dataclasses.replace(direct, determiner=determiner)
    modal = clause.modal
    if modal is modifiers.MUST:
        modal = modifiers.HAVE_TO
    elif modal is modifiers.MAY:
        modal = modifiers.MUST_NOT
    return dataclasses.replace(clause, direct=direct, modal=modal)


def copula_about(rng: random.Random, pronoun: Pronoun, phrase: NounPhrase) -> Clause:
    """Returns "it is heavy": a pronoun with a quality of its noun."""
    adjective = rng.choice(adjectives_for(phrase.noun.groups))
    quality = Quality(adjective)
    if rng.random() < 0.4:
        quality = Quality(adjective, degree=rng.choice(adverbials.DEGREES))
    return Clause(pronoun, verbs.COPULAS[0], Tense.PRESENT, quality=quality)
