"""Draws nominals and adverbials of a formal letter."""

import functools
import random
from collections.abc import Sequence

from grammar_ende.derivation import (
    Clause,
    Name,
    Nominal,
    NounPhrase,
    Oblique,
    Tense,
    Time,
)
from grammar_ende.lexicon import modifiers
from grammar_ende.lexicon.entries import Adjective, Determiner, Noun, Phrase, Pronoun
from grammar_ende.sample_nominals import weighted

from business_ende import lexicon

Groups = frozenset[str]
_SMALL_NUMBERS = range(2, 13)


@functools.cache
def nouns_in(groups: Groups) -> tuple[Noun, ...]:
    """Returns the nouns that belong to one of the groups, in table order."""
    return tuple(noun for noun in lexicon.NOUNS if noun.groups & groups)


@functools.cache
def adjectives_for(groups: Groups) -> tuple[Adjective, ...]:
    """Returns the adjectives that can describe a noun of these groups."""
    return tuple(word for word in lexicon.ADJECTIVES if word.groups & groups)


def draw_nominal(rng: random.Random, groups: Groups) -> Nominal:
    """Returns a subject or object of one of the groups; pronouns are persons."""
    group = frozenset({rng.choice(sorted(groups))})
    if "person" in group:
        kind = weighted(rng, (("pronoun", 52), ("name", 14), ("", 34)))
        if kind == "pronoun":
            return weighted(rng, lexicon.PERSONAL_PRONOUNS)
        if kind == "name":
            return rng.choice(lexicon.NAMES)
    return draw_noun_phrase(rng, group)


def draw_recipient(rng: random.Random) -> Nominal:
    """Returns a person to whom something is given: definite, mostly "you" or "us"."""
    kind = weighted(rng, (("pronoun", 70), ("name", 12), ("", 18)))
    if kind == "pronoun":
        return weighted(rng, lexicon.PERSONAL_PRONOUNS)
    if kind == "name":
        return rng.choice(lexicon.NAMES)
    return draw_definite_phrase(rng, frozenset({"person"}))


def draw_definite_phrase(rng: random.Random, groups: Groups) -> NounPhrase:
    """Returns a singular noun phrase with an article or a possessive."""
    noun = rng.choice(nouns_in(groups))
    determiner = modifiers.THE
    if _may_be_owned(noun) and rng.random() < 0.4:
        determiner = weighted(rng, lexicon.POSSESSIVES)
    return NounPhrase(determiner, noun, adjective=_draw_adjective(rng, noun))


def draw_noun_phrase(rng: random.Random, groups: Groups) -> NounPhrase:
    """Returns a noun phrase, singular or plural, with any determiner."""
    noun = rng.choice(nouns_in(groups))
    adjective, compound, number = _draw_adjective(rng, noun), None, None
    if "fixture" in noun.groups and rng.random() < 0.45:
        compound = rng.choice(lexicon.COMPOUND_MODIFIERS)
    is_countable = noun.en_plural != "-"
    is_plural = is_countable and rng.random() < 0.27
    if is_plural and rng.random() < 0.2:
        number = rng.choice(_SMALL_NUMBERS)
    determiner = _draw_determiner(rng, noun, is_plural)
    if number is not None or (determiner == modifiers.A and not is_countable):
        determiner = modifiers.BARE
    phrase = NounPhrase(determiner, noun, is_plural, adjective, number, compound)
    if determiner == modifiers.THE and "person" not in noun.groups:
        if rng.random() < 0.14:
            owner = draw_definite_phrase(rng, frozenset({"person", "body"}))
            return NounPhrase(
                determiner, noun, is_plural, adjective, None, compound, owner
            )
    return phrase


def draw_cause(rng: random.Random) -> Oblique:
    """Returns due to, despite or in accordance with something."""
    preposition = rng.choice(
        (lexicon.DUE_TO, lexicon.DESPITE, lexicon.IN_ACCORDANCE_WITH)
    )
    groups = frozenset({"cause"})
    if preposition == lexicon.IN_ACCORDANCE_WITH:
        groups = frozenset({"agreed"})
    return Oblique(preposition, draw_definite_phrase(rng, groups))


def draw_place(rng: random.Random) -> Oblique:
    """Returns where something happens."""
    return Oblique(lexicon.AT, draw_definite_phrase(rng, frozenset({"place"})))


def draw_time(rng: random.Random, clause: Clause) -> Time:
    """Returns a time that fits the tense of the clause."""
    tense = clause.tense if clause.modal is None else Tense.FUTURE
    times: dict[Tense, Sequence[Phrase]] = {
        Tense.PRESENT: lexicon.PRESENT_TIMES,
        Tense.PAST: lexicon.PAST_TIMES,
        Tense.PERFECT: lexicon.PERFECT_TIMES,
        Tense.FUTURE: lexicon.FUTURE_TIMES,
    }
    return rng.choice(times[tense])


def is_person(nominal: Nominal) -> bool:
    """Returns whether the nominal names a person."""
    if isinstance(nominal, NounPhrase):
        return "person" in nominal.noun.groups
    return isinstance(nominal, Pronoun | Name)


def _draw_determiner(rng: random.Random, noun: Noun, is_plural: bool) -> Determiner:
    kinds = [(modifiers.THE, 44.0), (modifiers.THIS, 8)]
    if is_plural:
        kinds += [(modifiers.BARE, 12), (modifiers.ALL, 8)]
    else:
        kinds += [(modifiers.A, 20)]
    if _may_be_owned(noun) and rng.random() < 0.42:
        return weighted(rng, lexicon.POSSESSIVES)
    return weighted(rng, kinds)


def _draw_adjective(rng: random.Random, noun: Noun) -> Adjective | None:
    fitting = adjectives_for(noun.groups)
    return rng.choice(fitting) if fitting and rng.random() < 0.3 else None


def _may_be_owned(noun: Noun) -> bool:
    if noun.groups & {"person", "body"}:
        return "own" in noun.groups
    return not noun.groups & {"cause"}
