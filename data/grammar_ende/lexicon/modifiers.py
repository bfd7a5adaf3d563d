"""Function words: determiners, pronouns, prepositions, conjunctions, adverbials.

Rules for a one-to-one translation, where German has more words than English: `you`
is one familiar person (du), `it` agrees with its noun, `when` is als.
"""

from typing import NamedTuple

from grammar_ende.lexicon.entries import (
    Adjective,
    Case,
    Determiner,
    Preposition,
    Pronoun,
    adjective_entries,
)
from grammar_ende.lexicon.tables import table_rows

ADJECTIVES: tuple[Adjective, ...] = adjective_entries(table_rows("adjectives.txt"))

THE = Determiner("the", "the", "DT", "", "", "der", True)
A = Determiner("a", "", "DT", "ein", "", "ein", False)
BARE = Determiner("", "", "", "", "", "bare", False)
NO = Determiner("no", "no", "DT", "kein", "kein", "ein", False)
# What "not ... a" becomes: English keeps its article, German negates it.
NOT_A = Determiner("a", "", "DT", "kein", "kein", "ein", False)
NOT_BARE = Determiner("", "", "", "kein", "kein", "ein", False)
THIS = Determiner("this", "these", "DT", "dies", "dies", "dieser", True)
EVERY = Determiner("every", "", "DT", "jed", "", "dieser", True)
ALL = Determiner("", "all", "DT", "", "all", "dieser", True)
MANY = Determiner("", "many", "JJ", "", "viel", "strong", False)
SOME = Determiner("", "some", "DT", "", "einig", "strong", False)
HOW_MANY = Determiner("", "how many", "WRB JJ", "", "wie viel", "strong", False)
WHICH = Determiner("which", "which", "WDT", "welch", "welch", "dieser", True)
POSSESSIVES: tuple[Determiner, ...] = (
    Determiner("my", "my", "PRP$", "mein", "mein", "ein", True),
    Determiner("your", "your", "PRP$", "dein", "dein", "ein", True),
    Determiner("his", "his", "PRP$", "sein", "sein", "ein", True),
    Determiner("her", "her", "PRP$", "ihr", "ihr", "ein", True),
    Determiner("our", "our", "PRP$", "unser", "unser", "ein", True),
    Determiner("their", "their", "PRP$", "ihr", "ihr", "ein", True),
)

I_PRONOUN = Pronoun("I", "me", "ich", "mich", "mir", 1, False)
YOU = Pronoun("you", "you", "du", "dich", "dir", 2, False)
HE = Pronoun("he", "him", "er", "ihn", "ihm", 3, False)
SHE = Pronoun("she", "her", "sie", "sie", "ihr", 3, False)
WE = Pronoun("we", "us", "wir", "uns", "uns", 1, True)
THEY = Pronoun("they", "them", "sie", "sie", "ihnen", 3, True)
IT_MASCULINE = Pronoun("it", "it", "er", "ihn", "ihm", 3, False)
IT_FEMININE = Pronoun("it", "it", "sie", "sie", "ihr", 3, False)
IT_NEUTER = Pronoun("it", "it", "es", "es", "ihm", 3, False)
WHO = Pronoun("who", "whom", "wer", "wen", "wem", 3, False)
PERSONAL_PRONOUNS: tuple[Pronoun, ...] = (I_PRONOUN, YOU, HE, SHE, WE, THEY)

NAMES: tuple[tuple[str, Pronoun], ...] = (
    ("Anna", SHE),
    ("Peter", HE),
    ("Maria", SHE),
    ("Martin", HE),
    ("Julia", SHE),
    ("Paul", HE),
    ("Laura", SHE),
    ("David", HE),
)
CITIES: tuple[tuple[str, str], ...] = (
    ("Berlin", "Berlin"),
    ("Hamburg", "Hamburg"),
    ("Munich", "München"),
    ("Vienna", "Wien"),
    ("Cologne", "Köln"),
    ("Zurich", "Zürich"),
)

IN = Preposition("in", "in", Case.DATIVE)
INTO = Preposition("into", "in", Case.ACCUSATIVE)
AT = Preposition("at", "an", Case.DATIVE)
TO = Preposition("to", "zu", Case.DATIVE)
TO_CITY = Preposition("to", "nach", Case.DATIVE)
ON = Preposition("on", "auf", Case.DATIVE)
ONTO = Preposition("on", "auf", Case.ACCUSATIVE)
WITH = Preposition("with", "mit", Case.DATIVE)
BECAUSE_OF = Preposition("because of", "wegen", Case.GENITIVE)
DESPITE = Preposition("despite", "trotz", Case.GENITIVE)
PLACE_PREPOSITIONS: tuple[Preposition, ...] = (
    Preposition("behind", "hinter", Case.DATIVE),
    Preposition("in front of", "vor", Case.DATIVE),
    Preposition("next to", "neben", Case.DATIVE),
)
WITHOUT = Preposition("without", "ohne", Case.ACCUSATIVE)
FOR = Preposition("for", "für", Case.ACCUSATIVE)
EVENT_PREPOSITIONS: tuple[Preposition, ...] = (
    Preposition("during", "während", Case.GENITIVE),
    Preposition("after", "nach", Case.DATIVE),
    Preposition("before", "vor", Case.DATIVE),
)


class Modal(NamedTuple):
    """A modal: its English word and the forms of its German one.

    An auxiliary (`can`) has no `to`; the others are verbs with `to` (`wants to`,
    `had to`). The German forms are those of ich (and er), du and wir.
    """

    en: str
    is_auxiliary: bool
    is_past: bool
    de: str
    de_second: str
    de_plural: str


CAN = Modal("can", True, False, "kann", "kannst", "können")
MUST = Modal("must", True, False, "muss", "musst", "müssen")
MAY = Modal("may", True, False, "darf", "darfst", "dürfen")
SHOULD = Modal("should", True, False, "sollte", "solltest", "sollten")
WANT = Modal("want", False, False, "will", "willst", "wollen")
COULD = Modal("could", True, True, "konnte", "konntest", "konnten")
HAD_TO = Modal("have", False, True, "musste", "musstest", "mussten")
WANTED = Modal("want", False, True, "wollte", "wolltest", "wollten")
# Negation turns the pair over: "must not" is "darf nicht", "muss nicht" is this.
MUST_NOT = Modal("must", True, False, "darf", "darfst", "dürfen")
HAVE_TO = Modal("have", False, False, "muss", "musst", "müssen")

MODALS_AFFIRMED: tuple[Modal, ...] = (
    CAN,
    MUST,
    MAY,
    SHOULD,
    WANT,
    COULD,
    HAD_TO,
    WANTED,
)
