"""Derivations: the meaning of a sentence, independent of either language.

A derivation is drawn once and put into words twice. It holds lexicon entries and
choices, never a word form or a word order: those belong to `english_*` and
`german_*`. English and German agree because both read the same derivation.
"""

import enum
from dataclasses import dataclass
from typing import TypeAlias

from grammar_ende.lexicon.entries import (
    Adjective,
    Determiner,
    Noun,
    Phrase,
    Preposition,
    Pronoun,
    Verb,
)
from grammar_ende.lexicon.modifiers import Modal


class Tense(enum.Enum):
    """Simple past is the German Präteritum, present perfect the Perfekt."""

    PRESENT = enum.auto()
    PAST = enum.auto()
    PERFECT = enum.auto()
    FUTURE = enum.auto()


class Role(enum.Enum):
    """Role of the relative pronoun or the question word in its clause."""

    SUBJECT = enum.auto()
    DIRECT = enum.auto()
    RECIPIENT = enum.auto()
    OBLIQUE = enum.auto()
    TIME = enum.auto()
    CAUSE = enum.auto()


@dataclass(frozen=True)
class Name:
    """A person or a city; `pronoun` refers to it later.

    `de_oblique` is the form of the cases other than the nominative, where that
    differs: `Herrn Weber`.
    """

    en: str
    de: str
    pronoun: Pronoun
    de_oblique: str = ""


@dataclass(frozen=True)
class NounPhrase:
    """A noun with everything around it.

    Attributes:
        compound: English modifier noun and German first part (`station` clock).
        possessor: `Anna's book` has a name, `my brother's book` a noun phrase.
        relative: the clause that describes the noun.
    """

    determiner: Determiner
    noun: Noun
    is_plural: bool = False
    adjective: Adjective | None = None
    number: int | None = None
    compound: tuple[str, str] | None = None
    possessor: "Name | NounPhrase | None" = None
    relative: "RelativeClause | None" = None


@dataclass(frozen=True)
class Pair:
    """Two nominals joined by "and"; always plural."""

    first: "Name | NounPhrase"
    second: "Name | NounPhrase"


Nominal: TypeAlias = Pronoun | Name | NounPhrase | Pair


@dataclass(frozen=True)
class Oblique:
    """A preposition and what it governs."""

    preposition: Preposition
    nominal: Nominal


@dataclass(frozen=True)
class ClockTime:
    """`at seven o'clock`."""

    hour: int


@dataclass(frozen=True)
class Ago:
    """`three days ago`: a number and the unit in both languages."""

    number: int
    en_unit: str
    de_unit: str


Time: TypeAlias = Phrase | ClockTime | Ago | Oblique


@dataclass(frozen=True)
class Quality:
    """A predicate adjective: plain, with a degree, compared, or an age in years."""

    adjective: Adjective
    degree: Phrase | None = None
    standard: Nominal | None = None
    is_equal: bool = False
    years: int | None = None


@dataclass(frozen=True)
class Clause:
    """A verb with its subject, objects and adverbials.

    Attributes:
        is_passive: the subject is what is done to: `was paid`, `wurde bezahlt`.
        asks_politely: `Could you please …?`, in German with "bitte".
        likes: "likes to swim", in German "schwimmt gern".
        adverb: how often, or already; before the verb in English.
        direct: accusative; recipient: dative.
        oblique: belongs to the verb: prepositional object, destination, position.
        cause, company, place: free adverbials.
        fronts_time: the time opens the sentence, the German verb follows it.
        content: conjunction and clause that the verb reports.
        infinitive: the action that the subject tries; both share the subject.
    """

    subject: Nominal
    verb: Verb
    tense: Tense
    modal: Modal | None = None
    likes: bool = False
    is_negated: bool = False
    adverb: Phrase | None = None
    direct: Nominal | None = None
    recipient: Nominal | None = None
    oblique: Oblique | None = None
    quality: Quality | None = None
    time: Time | None = None
    cause: Oblique | None = None
    manner: Phrase | None = None
    company: Oblique | None = None
    place: Oblique | None = None
    fronts_time: bool = False
    content: "tuple[Phrase, Clause] | None" = None
    infinitive: "Clause | None" = None
    is_passive: bool = False
    asks_politely: bool = False


@dataclass(frozen=True)
class RelativeClause:
    """A clause in which the noun it describes plays a role.

    The clause has None in that role, or the noun phrase itself as its subject.
    """

    role: Role
    clause: Clause


@dataclass(frozen=True)
class Existence:
    """`There is a cat in the garden.`"""

    nominal: NounPhrase
    place: Oblique
    tense: Tense
    is_question: bool = False


@dataclass(frozen=True)
class Statement:
    """A main clause that ends in a full stop."""

    clause: Clause


@dataclass(frozen=True)
class YesNoQuestion:
    """A main clause that begins with its finite verb."""

    clause: Clause


@dataclass(frozen=True)
class WhQuestion:
    """A main clause that asks for what plays a role in it."""

    clause: Clause
    role: Role
    asked: Phrase | NounPhrase | None


@dataclass(frozen=True)
class Subordination:
    """A main clause and an adverbial clause, in either order."""

    main: Clause
    conjunction: Phrase
    subordinate: Clause
    is_fronted: bool


@dataclass(frozen=True)
class Coordination:
    """Two main clauses joined by "and" or "but"."""

    first: Clause
    conjunction: Phrase
    second: Clause


@dataclass(frozen=True)
class Request:
    """`Please send us the contract.`: an imperative, whose subject German names."""

    clause: Clause


@dataclass(frozen=True)
class Announcement:
    """`Please note that …`: a fixed main clause and the content clause it reports."""

    opening: Phrase
    conjunction: Phrase
    clause: Clause


Sentence: TypeAlias = (
    Statement
    | YesNoQuestion
    | WhQuestion
    | Subordination
    | Coordination
    | Existence
    | Request
    | Announcement
)


def person(nominal: Nominal) -> int:
    """Returns the grammatical person, 1 to 3, that the verb agrees with."""
    return nominal.person if isinstance(nominal, Pronoun) else 3


def is_plural(nominal: Nominal) -> bool:
    """Returns whether the verb is plural with this subject."""
    if isinstance(nominal, Name):
        return False
    return isinstance(nominal, Pair) or nominal.is_plural


def is_definite(nominal: Nominal) -> bool:
    """Returns whether a German object precedes the adverbials."""
    if not isinstance(nominal, NounPhrase):
        return True
    if nominal.number is not None:
        return False
    return nominal.possessor is not None or nominal.determiner.is_definite


def names_in(nominal: Nominal) -> tuple[str, ...]:
    """Returns the nouns and names in a nominal, its owner included."""
    if isinstance(nominal, Pronoun):
        return ()
    if isinstance(nominal, Name):
        return (nominal.en,)
    if isinstance(nominal, Pair):
        return (*names_in(nominal.first), *names_in(nominal.second))
    owner = nominal.possessor
    return (nominal.noun.en, *(names_in(owner) if owner is not None else ()))
