"""Draws clauses: a verb, its complements, tense and modal, negation, adverbials."""

import dataclasses
import random
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from grammar_ende.derivation import (
    Clause,
    Name,
    Nominal,
    NounPhrase,
    Oblique,
    Pair,
    Quality,
    Tense,
    is_definite,
    is_plural,
    person,
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
    nouns_in,
    weighted,
)

Completion: TypeAlias = Callable[[random.Random, Clause], Clause]
_QUANTIFIERS = (
    modifiers.EVERY,
    modifiers.ALL,
    modifiers.MANY,
    modifiers.SOME,
    modifiers.NO,
)


class Pattern(NamedTuple):
    """Verbs that take the same complements, and the function that draws those."""

    verbs: tuple[Verb, ...]
    complete: Completion
    weight: float


class Wish(NamedTuple):
    """What the surrounding sentence asks of a clause.

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
    """
    while True:
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
        if _can_be_said(clause):
            return clause


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
    kind = weighted(rng, (("", 50), ("degree", 20), ("compared", 20), ("age", 10)))
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
    # A pronoun that stands for a thing may have qualities and nothing else.
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


def _can_be_said(clause: Clause) -> bool:
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
    """Returns whether no one acts on himself, which would be said otherwise."""
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
    nouns = [_names(each) for each in [clause.subject, *present]]
    flat = [name for names in nouns for name in names]
    return len(flat) == len(set(flat))


def _names(nominal: Nominal) -> tuple[str, ...]:
    """Returns the nouns and names in a nominal, its owner included."""
    if isinstance(nominal, Pronoun):
        return ()
    if isinstance(nominal, Name):
        return (nominal.en,)
    if isinstance(nominal, Pair):
        return (*_names(nominal.first), *_names(nominal.second))
    owner = nominal.possessor
    return (nominal.noun.en, *(_names(owner) if owner is not None else ()))


def _negation_is_clear(clause: Clause) -> bool:
    """Returns whether "not" has one reading: nothing counted beside it."""
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


def copula_about(rng: random.Random, pronoun: Pronoun, phrase: NounPhrase) -> Clause:
    """Returns "it is heavy": a pronoun with a quality of the noun it stands for."""
    adjective = rng.choice(adjectives_for(phrase.noun.groups))
    quality = Quality(adjective)
    if rng.random() < 0.4:
        quality = Quality(adjective, degree=rng.choice(adverbials.DEGREES))
    return Clause(pronoun, verbs.COPULAS[0], Tense.PRESENT, quality=quality)


def has_qualities(phrase: NounPhrase) -> bool:
    """Returns whether the lexicon has an adjective for the noun."""
    return bool(adjectives_for(phrase.noun.groups)) and bool(nouns_in(phrase.noun.groups))
