"""Lexicon entries, and how they are read from the rows of a table."""

import enum
from collections.abc import Sequence
from typing import NamedTuple

from grammar_ende.lexicon.tables import Row


class Gender(enum.Enum):
    """German grammatical gender, named by its definite article."""

    MASCULINE = "der"
    FEMININE = "die"
    NEUTER = "das"


class Case(enum.Enum):
    """The four German cases; the value is the row of every paradigm table."""

    NOMINATIVE = 0
    ACCUSATIVE = 1
    DATIVE = 2
    GENITIVE = 3


class Noun(NamedTuple):
    """One noun: its forms in both languages and what kind of thing it names."""

    en: str
    en_plural: str
    gender: Gender
    de: str
    de_plural: str
    de_genitive: str
    groups: frozenset[str]


class Verb(NamedTuple):
    """One verb: principal parts in both languages and what it combines with.

    The German infinitive is kept as prefix and stem verb (`auf`, `stehen`); a verb
    that does not separate has an empty prefix. `en_particle` follows the English
    verb (`pick up`), `en_preposition` opens its object (`look for`).
    """

    en: str
    en_past: str
    en_participle: str
    en_particle: str
    en_preposition: str
    de_prefix: str
    de: str
    de_third: str
    de_past: str
    de_participle: str
    de_auxiliary: str
    subjects: frozenset[str]
    objects: frozenset[str]
    flags: frozenset[str]
    preposition: "Preposition | None"

    @property
    def is_stative(self) -> bool:
        """Whether the verb refuses modals, wishes and manner."""
        return "state" in self.flags


class Adjective(NamedTuple):
    """One adjective: predicative form, stem for endings, comparative."""

    en: str
    en_comparative: str
    de: str
    de_stem: str
    de_comparative: str
    groups: frozenset[str]


class Preposition(NamedTuple):
    """A preposition of both languages and the case it governs in German."""

    en: str
    de: str
    case: Case


class Pronoun(NamedTuple):
    """A personal pronoun: English two forms, German three, and its agreement."""

    en_subject: str
    en_object: str
    de_nominative: str
    de_accusative: str
    de_dative: str
    person: int
    is_plural: bool


class Determiner(NamedTuple):
    """A determiner: article, possessive, numeral or the like before a noun.

    `de_pattern` names the row of endings: `der`, `dieser`, `ein` or `bare`;
    `de_plural` replaces the stem in the plural (`ein` has none). `is_definite`
    decides where German puts an object: before adverbials or after them.
    """

    en: str
    en_plural: str
    en_tag: str
    de: str
    de_plural: str
    de_pattern: str
    is_definite: bool


class Phrase(NamedTuple):
    """A fixed expression: an English tree in brackets and its German words.

    `links` are the words that translate each other, as `0-0 1-2`. By default they do
    so in order, or each does each if the numbers of words differ.
    """

    en: str
    de: str
    links: str = ""


def noun_entries(rows: Sequence[Row]) -> tuple[Noun, ...]:
    """Returns the nouns of rows `dog dogs der Hund Hunde Hundes : animal`.

    A noun that has no plural has `-` in its place.
    """
    nouns = []
    for forms, groups in rows:
        en, en_plural, article, de, de_plural, de_genitive = forms.split()
        nouns.append(
            Noun(
                en,
                en_plural,
                Gender(article),
                de,
                de_plural,
                de_genitive,
                frozenset(groups.split()),
            )
        )
    return tuple(nouns)


def verb_entries(rows: Sequence[Row]) -> tuple[Verb, ...]:
    """Returns the verbs of rows.

    A row reads `see saw seen : sehen sieht sah gesehen hat : subjects : objects :
    flags`. After the English participle there may be a particle (`+up`) or the
    preposition of the object (`=for`), after the German auxiliary the preposition
    of the object with its case (`auf+ACCUSATIVE`); the German infinitive marks what
    separates (`auf|stehen`).
    """
    verbs = []
    for english, german, subjects, objects, flags in rows:
        en, en_past, en_participle, *extra = english.split()
        en_preposition = _marked("=", extra)
        infinitive, third, past, participle, auxiliary, *governed = german.split()
        prefix, _, stem_verb = infinitive.rpartition("|")
        verbs.append(
            Verb(
                en,
                en_past,
                en_participle,
                _marked("+", extra),
                en_preposition,
                prefix,
                stem_verb,
                third,
                past,
                participle,
                {"hat": "haben", "ist": "sein"}[auxiliary],
                frozenset(subjects.split()),
                frozenset(objects.split()),
                frozenset(flags.split()),
                _preposition(en_preposition, governed),
            )
        )
    return tuple(verbs)


def adjective_entries(rows: Sequence[Row]) -> tuple[Adjective, ...]:
    """Returns the adjectives of rows `old older : alt alt älter : groups`.

    An adjective that is not compared has `-` for its comparatives.
    """
    adjectives = []
    for english, german, groups in rows:
        en, en_comparative = english.split()
        de, de_stem, de_comparative = german.split()
        adjectives.append(
            Adjective(
                en,
                en_comparative.replace("_", " "),
                de,
                de_stem,
                de_comparative,
                frozenset(groups.split()),
            )
        )
    return tuple(adjectives)


def _marked(mark: str, words: list[str]) -> str:
    return " ".join(word[1:] for word in words if word.startswith(mark))


def _preposition(en: str, governed: list[str]) -> Preposition | None:
    if not governed:
        return None
    de, _, case = governed[0].partition("+")
    return Preposition(en, de, Case[case])
