"""Draws the free adverbials of a clause: when, how, with whom, where, why."""

import dataclasses
import random

from grammar_ende.derivation import Ago, Clause, ClockTime, Oblique, Tense, Time
from grammar_ende.lexicon import adverbials, modifiers
from grammar_ende.lexicon.entries import Preposition
from grammar_ende.sample_nominals import (
    PERSON,
    draw_definite,
    draw_definite_phrase,
    draw_place,
    weighted,
)

_EVENTS = frozenset({"event"})
_CAUSES = frozenset({"cause"})


def with_adverbials(rng: random.Random, clause: Clause) -> Clause:
    """Returns the clause with at most a time, a frequency and one other adverbial.

    A negated clause gets a time at most, so that "not" can deny only one thing.
    """
    if clause.verb.is_stative:
        return _with_time(rng, clause, 0.15)
    clause = _with_time(rng, clause, 0.45)
    if clause.is_negated:
        return clause
    if clause.time is None and clause.modal is None and rng.random() < 0.2:
        clause = _with_adverb(rng, clause)
    if rng.random() < 0.55:
        clause = _with_other(rng, clause)
    return clause


def draw_time(rng: random.Random, clause: Clause) -> Time:
    """Returns a time that fits the tense of the clause."""
    tense = Tense.PAST if clause.modal and clause.modal.is_past else clause.tense
    if clause.modal is not None and tense is Tense.PRESENT and rng.random() < 0.5:
        tense = Tense.FUTURE
    if tense is Tense.PERFECT:
        return rng.choice(adverbials.PERFECT_TIMES)
    kind = weighted(rng, (("phrase", 62), ("clock", 14), ("ago", 12), ("event", 12)))
    if kind == "clock":
        return ClockTime(rng.randint(1, 12))
    if kind == "event":
        return _event(rng, rng.choice(modifiers.EVENT_PREPOSITIONS))
    if kind == "ago" and tense is Tense.PAST:
        return Ago(rng.randint(2, 12), *rng.choice(adverbials.TIME_UNITS))
    if tense is Tense.PAST:
        return rng.choice(adverbials.PAST_TIMES)
    if tense is Tense.FUTURE:
        return rng.choice(adverbials.FUTURE_TIMES)
    return rng.choice(adverbials.PRESENT_TIMES)


def _with_time(rng: random.Random, clause: Clause, probability: float) -> Clause:
    if rng.random() >= probability:
        return clause
    return dataclasses.replace(clause, time=draw_time(rng, clause))


def _with_adverb(rng: random.Random, clause: Clause) -> Clause:
    if clause.tense is Tense.PERFECT:
        adverb = rng.choice(adverbials.PERFECT_ADVERBS)
    elif clause.tense is Tense.FUTURE or clause.likes:
        return clause
    else:
        adverb = rng.choice(adverbials.FREQUENCIES)
    return dataclasses.replace(clause, adverb=adverb)


def _with_other(rng: random.Random, clause: Clause) -> Clause:
    flags = clause.verb.flags
    kinds = [("cause", 10.0)]
    if "manner" in flags and not clause.likes:
        kinds.append(("manner", 35))
    if "place" in flags:
        kinds.append(("place", 40))
    if "company" in flags:
        kinds.append(("company", 20))
    if "benefit" in flags:
        kinds.append(("benefit", 15))
    kind = weighted(rng, kinds)
    if kind == "manner":
        return dataclasses.replace(clause, manner=rng.choice(adverbials.MANNERS))
    if kind == "place":
        return dataclasses.replace(clause, place=draw_place(rng))
    if kind == "cause":
        if rng.random() < 0.4:
            return clause
        preposition = rng.choice((modifiers.BECAUSE_OF, modifiers.DESPITE))
        cause = draw_definite_phrase(rng, _CAUSES)
        return dataclasses.replace(clause, cause=Oblique(preposition, cause))
    preposition = modifiers.FOR
    if kind == "company":
        preposition = rng.choice((modifiers.WITH, modifiers.WITHOUT))
    company = Oblique(preposition, draw_definite(rng, PERSON))
    return dataclasses.replace(clause, company=company)


def _event(rng: random.Random, preposition: Preposition) -> Oblique:
    return Oblique(preposition, draw_definite_phrase(rng, _EVENTS))
