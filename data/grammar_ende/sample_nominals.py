"""Draws nominals: pronouns, names, noun phrases, places."""

import dataclasses
import functools
import random
from collections.abc import Sequence
from typing import TypeVar

from grammar_ende.derivation import (
    Name,
    Nominal,
    NounPhrase,
    Oblique,
    Pair,
    names_in,
)
from grammar_ende.lexicon import modifiers
from grammar_ende.lexicon.entries import (
    Adjective,
    Determiner,
    Gender,
    Noun,
    Preposition,
    Pronoun,
)
from grammar_ende.lexicon.nouns import COMPOUND_MODIFIERS, NOUNS

Groups = frozenset[str]
_Choice = TypeVar("_Choice")
PERSON: Groups = frozenset({"person"})
# Small counts are what people count; the rest keep every number word in use.
_SMALL_NUMBERS = range(2, 13)
_NUMBERS = range(2, 100)


def weighted(rng: random.Random, choices: Sequence[tuple[_Choice, float]]) -> _Choice:
    """Returns one of the choices, each as likely as the weight beside it."""
    threshold = rng.random() * sum(weight for _, weight in choices)
    for choice, weight in choices:
        threshold -= weight
        if threshold < 0:
            return choice
    return choices[-1][0]


def draw_group(rng: random.Random, groups: Groups) -> Groups:
    """Returns one of the groups alone, so that small groups are not rare."""
    return frozenset({rng.choice(sorted(groups))})


@functools.cache
def nouns_in(groups: Groups) -> tuple[Noun, ...]:
    """Returns the nouns that belong to one of the groups, in table order."""
    return tuple(noun for noun in NOUNS if noun.groups & groups)


@functools.cache
def adjectives_for(groups: Groups) -> tuple[Adjective, ...]:
    """Returns the adjectives that can describe a noun of these groups."""
    return tuple(word for word in modifiers.ADJECTIVES if word.groups & groups)


def draw_number(rng: random.Random) -> int:
    """Returns a number from 2 to 99, as often as not below 13."""
    return rng.choice(_SMALL_NUMBERS if rng.random() < 0.5 else _NUMBERS)


def draw_name(rng: random.Random) -> Name:
    """Returns the name of a person."""
    name, pronoun = rng.choice(modifiers.NAMES)
    return Name(name, name, pronoun)


def draw_nominal(rng: random.Random, groups: Groups) -> Nominal:
    """Returns a subject or object of one of the groups.

    Pronouns, names and pairs are persons only.
    """
    group = draw_group(rng, groups)
    if group == PERSON:
        kind = weighted(rng, (("pronoun", 28), ("name", 9), ("pair", 5), ("", 58)))
        if kind == "pronoun":
            return rng.choice(modifiers.PERSONAL_PRONOUNS)
        if kind == "name":
            return draw_name(rng)
        if kind == "pair":
            return _draw_pair(rng)
    return draw_noun_phrase(rng, group)


def draw_definite(rng: random.Random, groups: Groups) -> Nominal:
    """Returns a nominal that German puts before the adverbials."""
    if "person" in groups and rng.random() < 0.4:
        is_name = rng.random() < 0.3
        return draw_name(rng) if is_name else rng.choice(modifiers.PERSONAL_PRONOUNS)
    return draw_definite_phrase(rng, groups)


def draw_definite_phrase(rng: random.Random, groups: Groups) -> NounPhrase:
    """Returns a singular noun phrase with an article or a possessive."""
    noun = rng.choice(nouns_in(groups))
    determiner = modifiers.THE
    if _may_be_owned(noun) and rng.random() < 0.35:
        determiner = rng.choice(modifiers.POSSESSIVES)
    return NounPhrase(determiner, noun, adjective=_draw_adjective(rng, noun, 0.25))


def draw_noun_phrase(rng: random.Random, groups: Groups) -> NounPhrase:
    """Returns a noun phrase, singular or plural, with any determiner."""
    noun = rng.choice(nouns_in(draw_group(rng, groups)))
    adjective = _draw_adjective(rng, noun, 0.38)
    if noun.en_plural == "-":
        choices = ((modifiers.BARE, 5), (modifiers.THE, 3), (None, 2))
        return _determined(
            rng, NounPhrase(modifiers.THE, noun, False, adjective), choices
        )
    compound = None
    if "fixture" in noun.groups and rng.random() < 0.5:
        compound = rng.choice(COMPOUND_MODIFIERS)
    if rng.random() < 0.27:
        return _draw_plural(
            rng, NounPhrase(modifiers.THE, noun, True, adjective, None, compound)
        )
    choices = (
        (modifiers.THE, 42),
        (modifiers.A, 24),
        (modifiers.THIS, 9),
        (modifiers.EVERY, 3),
        (None, 22),
    )
    return _determined(
        rng, NounPhrase(modifiers.THE, noun, False, adjective, None, compound), choices
    )


def draw_place(rng: random.Random, allows_city: bool = True) -> Oblique:
    """Returns where something is: in, at, behind, in front of or next to a place."""
    kind = weighted(rng, (("in", 50), ("at", 22), ("city", 10), ("near", 18)))
    if kind == "city" and allows_city:
        return Oblique(modifiers.IN, _draw_city(rng))
    if kind == "at":
        return Oblique(modifiers.AT, _draw_site(rng, "beside"))
    if kind == "near":
        return Oblique(
            rng.choice(modifiers.PLACE_PREPOSITIONS), _draw_site(rng, "building")
        )
    return Oblique(modifiers.IN, _draw_site(rng, "inside"))


def draw_destination(rng: random.Random) -> Oblique:
    """Returns where somebody goes: into the kitchen, to the station, to Berlin."""
    kind = weighted(rng, (("into", 45), ("to", 40), ("city", 15)))
    if kind == "city":
        return Oblique(modifiers.TO_CITY, _draw_city(rng))
    if kind == "to":
        return Oblique(modifiers.TO, _draw_site(rng, "beside", "building"))
    return Oblique(modifiers.INTO, _draw_site(rng, "inside"))


def draw_surface(rng: random.Random, preposition: Preposition) -> Oblique:
    """Returns a preposition over a piece of furniture: `on the table`."""
    phrase = draw_definite_phrase(rng, frozenset({"surface"}))
    return Oblique(preposition, phrase)


def pronoun_for(nominal: Nominal) -> Pronoun | None:
    """Returns the pronoun that refers to a nominal later; None if that is open.

    A child is he, she or it in English, so it has no pronoun here.
    """
    if isinstance(nominal, Pronoun):
        return nominal
    if isinstance(nominal, Name):
        return nominal.pronoun
    if isinstance(nominal, Pair) or nominal.is_plural:
        return modifiers.THEY
    groups = nominal.noun.groups
    if "person" in groups:
        if "he" in groups:
            return modifiers.HE
        return modifiers.SHE if "she" in groups else None
    return {
        Gender.MASCULINE: modifiers.IT_MASCULINE,
        Gender.FEMININE: modifiers.IT_FEMININE,
        Gender.NEUTER: modifiers.IT_NEUTER,
    }[nominal.noun.gender]


def _draw_city(rng: random.Random) -> Name:
    return Name(*rng.choice(modifiers.CITIES), modifiers.IT_NEUTER)


def _draw_site(rng: random.Random, *groups: str) -> NounPhrase:
    noun = rng.choice(nouns_in(frozenset(groups)))
    choices = [(modifiers.THE, 70), (modifiers.A, 12), (modifiers.THIS, 6)]
    determiner = weighted(rng, choices)
    if "room" in noun.groups and rng.random() < 0.25:
        determiner = rng.choice(modifiers.POSSESSIVES)
    return NounPhrase(determiner, noun, adjective=_draw_adjective(rng, noun, 0.25))


def _draw_pair(rng: random.Random) -> Pair:
    first = draw_name(rng) if rng.random() < 0.4 else draw_definite_phrase(rng, PERSON)
    while True:
        second = (
            draw_name(rng) if rng.random() < 0.4 else draw_definite_phrase(rng, PERSON)
        )
        if not set(names_in(second)) & set(names_in(first)):
            return Pair(first, second)


def _draw_plural(rng: random.Random, phrase: NounPhrase) -> NounPhrase:
    choices = (
        (modifiers.THE, 30),
        (modifiers.BARE, 12),
        (modifiers.THIS, 9),
        (modifiers.ALL, 7),
        (modifiers.MANY, 8),
        (modifiers.SOME, 8),
        (None, 10),
    )
    if rng.random() < 0.3:
        number = draw_number(rng)
        return dataclasses.replace(phrase, number=number, determiner=modifiers.BARE)
    return _determined(rng, phrase, choices)


def _determined(
    rng: random.Random,
    phrase: NounPhrase,
    choices: Sequence[tuple[Determiner | None, float]],
) -> NounPhrase:
    """Returns the phrase with a determiner; None among the choices is an owner."""
    determiner = weighted(rng, choices)
    if determiner is not None:
        return dataclasses.replace(phrase, determiner=determiner)
    if not _may_be_owned(phrase.noun):
        return phrase
    if rng.random() < 0.65 or "person" in phrase.noun.groups:
        owned = rng.choice(modifiers.POSSESSIVES)
        return dataclasses.replace(phrase, determiner=owned)
    if rng.random() < 0.4:
        return dataclasses.replace(phrase, possessor=draw_name(rng))
    owner = draw_definite_phrase(rng, PERSON)
    return dataclasses.replace(phrase, possessor=owner)


def _draw_adjective(
    rng: random.Random, noun: Noun, probability: float
) -> Adjective | None:
    fitting = adjectives_for(noun.groups)
    return rng.choice(fitting) if fitting and rng.random() < probability else None


def _may_be_owned(noun: Noun) -> bool:
    """Returns whether `my` goes with the noun: not with strangers and the sky."""
    if "person" in noun.groups:
        return "family" in noun.groups
    return not noun.groups & {"cause", "sky", "beside", "town"}
