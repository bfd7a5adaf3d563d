"""Draws whole sentences: statements, questions, subordination, coordination."""

import dataclasses
import random
from typing import TypeGuard

from grammar_ende.derivation import (
    Clause,
    Coordination,
    Existence,
    Name,
    Nominal,
    NounPhrase,
    Sentence,
    Statement,
    Subordination,
    Tense,
    YesNoQuestion,
    is_plural,
)
from grammar_ende.lexicon import adverbials, modifiers, verbs
from grammar_ende.lexicon.entries import Phrase, Pronoun
from grammar_ende.sample_clauses import (
    SIMPLE_PATTERNS,
    WEATHER_PATTERNS,
    Wish,
    copula_about,
    draw_clause,
)
from grammar_ende.sample_nominals import (
    PERSON,
    draw_nominal,
    draw_noun_phrase,
    draw_place,
    pronoun_for,
    weighted,
)
from grammar_ende.sample_questions import draw_wh_question
from grammar_ende.sample_relatives import with_relative

_PLAIN = Wish()
_SHORT = Wish(allows_adverbials=False)
_EXISTING = frozenset({"thing", "animal", "surface", "person", "device"})
_CONJUNCTIONS = (
    (adverbials.BECAUSE, 30),
    (adverbials.ALTHOUGH, 20),
    (adverbials.IF, 18),
    (adverbials.WHEN, 12),
    (adverbials.WHILE, 10),
    (adverbials.BEFORE, 10),
)


def draw_sentence(rng: random.Random) -> Sentence:
    """Returns the derivation of one sentence."""
    draw = weighted(
        rng,
        (
            (_statement, 48),
            (_reporting, 9),
            (_trying, 5),
            (_yes_no_question, 9),
            (draw_wh_question, 10),
            (_subordination, 14),
            (_coordination, 3),
            (_existence, 3),
        ),
    )
    return draw(rng)


def _statement(rng: random.Random) -> Statement:
    clause = draw_clause(rng, SIMPLE_PATTERNS, _PLAIN)
    if rng.random() < 0.27:
        related = with_relative(rng, clause)
        if related is not None:
            return Statement(related)
    return Statement(_time_fronted(rng, clause, 0.35))


def _reporting(rng: random.Random) -> Statement:
    """Returns "she says that …" or "he asks whether …"."""
    subject = draw_nominal(rng, PERSON)
    tense = rng.choice((Tense.PRESENT, Tense.PAST))
    if isinstance(subject, Pronoun) and subject.person == 2:
        tense = Tense.PRESENT
    is_negated = rng.random() < 0.15 and not isinstance(subject, NounPhrase)
    inner_tense = Tense.PAST if tense is Tense.PAST else None
    content = draw_clause(rng, SIMPLE_PATTERNS, Wish(tense=inner_tense))
    verb, conjunction = rng.choice(verbs.CLAUSAL), adverbials.THAT
    if rng.random() < 0.2:
        verb, conjunction = verbs.ASKING[0], adverbials.WHETHER
    elif verb.en == "know" and is_negated:
        conjunction = adverbials.WHETHER
    return Statement(
        Clause(
            subject,
            verb,
            tense,
            is_negated=is_negated,
            content=(conjunction, content),
        )
    )


def _trying(rng: random.Random) -> Statement:
    """Returns "he tries to …"; the infinitive shares the subject."""
    subject = draw_nominal(rng, PERSON)
    tenses = (Tense.PRESENT, Tense.PAST, Tense.PERFECT)
    tense = rng.choice(tenses)
    if isinstance(subject, Pronoun) and subject.person == 2 and tense is Tense.PAST:
        tense = Tense.PERFECT
    verb = rng.choice(verbs.INFINITIVAL)
    wish = Wish(subject, Tense.PRESENT, allows_negation=False, allows_adverbials=False)
    while True:
        inner = draw_clause(rng, SIMPLE_PATTERNS, wish)
        if not inner.verb.is_stative:
            return Statement(Clause(subject, verb, tense, infinitive=inner))


def _yes_no_question(rng: random.Random) -> YesNoQuestion:
    wish = Wish(allows_negation=False)
    return YesNoQuestion(draw_clause(rng, SIMPLE_PATTERNS, wish))


def _subordination(rng: random.Random) -> Subordination:
    """Returns two clauses; the second may take up the subject of the first."""
    conjunction = weighted(rng, _CONJUNCTIONS)
    is_fronted = rng.random() < 0.4
    tense = _shared_tense(rng, conjunction)
    wish = Wish(tense=tense, allows_adverbials=rng.random() < 0.25)
    first = draw_clause(rng, SIMPLE_PATTERNS, wish)
    if conjunction is not adverbials.BEFORE and rng.random() < 0.12:
        weather = Wish(modifiers.IT_NEUTER, tense, allows_negation=False)
        subordinate = draw_clause(rng, WEATHER_PATTERNS, weather)
        return Subordination(first, conjunction, subordinate, is_fronted)
    second = _second_clause(rng, first, conjunction, tense)
    main, subordinate = (second, first) if is_fronted else (first, second)
    if conjunction is adverbials.IF and rng.random() < 0.4:
        main = dataclasses.replace(main, tense=Tense.FUTURE)
    return Subordination(main, conjunction, subordinate, is_fronted)


def _shared_tense(rng: random.Random, conjunction: Phrase) -> Tense:
    if conjunction is adverbials.IF:
        return Tense.PRESENT
    if conjunction is adverbials.WHEN:
        return Tense.PAST
    return rng.choice((Tense.PRESENT, Tense.PAST))


def _second_clause(
    rng: random.Random, first: Clause, conjunction: Phrase, tense: Tense
) -> Clause:
    kind = weighted(rng, (("same", 50), ("thing", 30), ("new", 20)))
    wish = _SHORT._replace(tense=tense)
    direct = first.direct
    gives_reason = conjunction in (adverbials.BECAUSE, adverbials.ALTHOUGH)
    if kind == "thing" and gives_reason and _is_one_thing(direct):
        pronoun = pronoun_for(direct)
        if pronoun is not None:
            about = copula_about(rng, pronoun, direct)
            return dataclasses.replace(about, tense=tense)
    pronoun = pronoun_for(first.subject)
    if kind == "same" and pronoun is not None and not _has_rival(first, pronoun):
        if isinstance(first.subject, NounPhrase) and not _is_person(first.subject):
            quality_of = first.subject
            about = copula_about(rng, pronoun, quality_of)
            return dataclasses.replace(about, tense=tense)
        wish = wish._replace(subject=pronoun)
    return draw_clause(rng, SIMPLE_PATTERNS, wish)


def _has_rival(clause: Clause, pronoun: Pronoun) -> bool:
    """Returns whether "it" or "they" could refer to something else in the clause."""
    if pronoun.en_subject not in ("it", "they"):
        return False
    oblique = clause.oblique
    return clause.direct is not None or clause.recipient is not None or bool(oblique)


def _is_one_thing(nominal: Nominal | None) -> TypeGuard[NounPhrase]:
    return (
        isinstance(nominal, NounPhrase)
        and not is_plural(nominal)
        and not _is_person(nominal)
        and nominal.possessor is None
        and nominal.determiner
        in (modifiers.THE, modifiers.THIS, *modifiers.POSSESSIVES)
    )


def _is_person(phrase: NounPhrase) -> bool:
    return "person" in phrase.noun.groups


def _coordination(rng: random.Random) -> Coordination:
    tense = rng.choice((Tense.PRESENT, Tense.PAST))
    wish = _SHORT._replace(tense=tense)
    first = draw_clause(rng, SIMPLE_PATTERNS, wish)
    second = draw_clause(rng, SIMPLE_PATTERNS, wish)
    conjunction = rng.choice((adverbials.AND, adverbials.BUT))
    return Coordination(first, conjunction, second)


def _existence(rng: random.Random) -> Existence:
    phrase = draw_noun_phrase(rng, _EXISTING)
    if phrase.number is None:
        determiner = modifiers.NO
        if rng.random() < 0.7:
            determiner = modifiers.MANY if phrase.is_plural else modifiers.A
        phrase = dataclasses.replace(phrase, determiner=determiner, possessor=None)
    tense = Tense.PAST if rng.random() < 0.4 else Tense.PRESENT
    place = draw_place(rng)
    if isinstance(place.nominal, Name):
        place = draw_place(rng)
    return Existence(phrase, place, tense, is_question=rng.random() < 0.2)


def _time_fronted(rng: random.Random, clause: Clause, probability: float) -> Clause:
    if clause.time is None or rng.random() >= probability:
        return clause
    return dataclasses.replace(clause, fronts_time=True)
