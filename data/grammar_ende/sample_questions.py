"""Draws questions that begin with a question word."""

import dataclasses
import random
from collections.abc import Callable

from grammar_ende.derivation import Role, WhQuestion
from grammar_ende.lexicon import adverbials, modifiers
from grammar_ende.lexicon.entries import Verb
from grammar_ende.sample_clauses import (
    COPULAR,
    DATIVE,
    INTRANSITIVE,
    MOTION,
    POSITION,
    SIMPLE_PATTERNS,
    TRANSITIVE,
    Pattern,
    Wish,
    draw_clause,
)
from grammar_ende.sample_nominals import PERSON, draw_noun_phrase, weighted

_ASKED = Wish(allows_negation=False)


def _only(pattern: Pattern, accepts: Callable[[Verb], bool]) -> Pattern:
    """Returns the pattern with the verbs that are accepted."""
    return pattern._replace(verbs=tuple(filter(accepts, pattern.verbs)))


def draw_wh_question(rng: random.Random) -> WhQuestion:
    """Returns a question for the subject, an object, a place, a time or a reason."""
    draw = weighted(
        rng,
        (
            (_for_subject, 20),
            (_for_direct, 34),
            (_for_recipient, 6),
            (_for_place, 16),
            (_for_destination, 8),
            (_for_time, 9),
            (_for_reason, 9),
        ),
    )
    return draw(rng)


def _for_subject(rng: random.Random) -> WhQuestion:
    wish = _ASKED._replace(subject=modifiers.WHO)
    clause = draw_clause(rng, SIMPLE_PATTERNS, wish)
    return WhQuestion(clause, Role.SUBJECT, None)


def _for_direct(rng: random.Random) -> WhQuestion:
    """Asks whom, what, which or how many; never apart from a preposition."""
    pattern = _only(TRANSITIVE, lambda verb: not verb.en_preposition)
    clause = draw_clause(rng, (pattern,), _ASKED)
    verb = clause.verb
    kind = weighted(rng, (("word", 50), ("which", 28), ("count", 22)))
    asked = adverbials.WHAT
    if kind == "which":
        asked = draw_noun_phrase(rng, verb.objects)
        asked = dataclasses.replace(
            asked, determiner=modifiers.WHICH, number=None, possessor=None
        )
    elif kind == "count" and verb.objects - {"drink", "town"}:
        asked = draw_noun_phrase(rng, verb.objects - {"drink", "town"})
        is_plural = asked.noun.en_plural != "-"
        asked = dataclasses.replace(
            asked,
            determiner=modifiers.HOW_MANY if is_plural else modifiers.WHICH,
            is_plural=is_plural,
            number=None,
            possessor=None,
        )
    elif verb.objects & PERSON:
        asked = adverbials.WHOM_ACCUSATIVE
    clause = dataclasses.replace(clause, direct=None)
    return WhQuestion(clause, Role.DIRECT, asked)


def _for_recipient(rng: random.Random) -> WhQuestion:
    pattern = _only(
        DATIVE, lambda verb: not verb.en_preposition and "person" in verb.objects
    )
    clause = draw_clause(rng, (pattern,), _ASKED)
    clause = dataclasses.replace(clause, recipient=None)
    return WhQuestion(clause, Role.RECIPIENT, adverbials.WHOM_DATIVE)


def _for_place(rng: random.Random) -> WhQuestion:
    patterns = (
        _only(INTRANSITIVE, lambda verb: "place" in verb.flags),
        _only(TRANSITIVE, lambda verb: "place" in verb.flags),
        POSITION._replace(weight=12),
    )
    clause = draw_clause(rng, patterns, _ASKED)
    clause = dataclasses.replace(clause, oblique=None, place=None)
    return WhQuestion(clause, Role.OBLIQUE, adverbials.WHERE)


def _for_destination(rng: random.Random) -> WhQuestion:
    """Asks wohin, with the verbs whose "where" can mean nothing else."""
    pattern = _only(MOTION, lambda verb: verb.en in ("go", "drive", "travel"))
    clause = draw_clause(rng, (pattern,), _ASKED)
    clause = dataclasses.replace(clause, oblique=None)
    return WhQuestion(clause, Role.OBLIQUE, adverbials.WHERE_TO)


def _for_time(rng: random.Random) -> WhQuestion:
    patterns = tuple(each for each in SIMPLE_PATTERNS if each is not COPULAR)
    wish = _ASKED._replace(allows_adverbials=False)
    clause = draw_clause(rng, patterns, wish)
    return WhQuestion(clause, Role.TIME, adverbials.WHEN_ASKED)


def _for_reason(rng: random.Random) -> WhQuestion:
    clause = draw_clause(rng, SIMPLE_PATTERNS, _ASKED)
    clause = dataclasses.replace(clause, cause=None)
    return WhQuestion(clause, Role.CAUSE, adverbials.WHY)
