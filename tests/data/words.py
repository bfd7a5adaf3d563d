"""Words and phrases for derivations in tests with sentences written by hand."""

from collections.abc import Iterator
from typing import Any

from grammar_ende.derivation import (
    Clause,
    Name,
    NounPhrase,
    Oblique,
    Sentence,
    Tense,
)
from grammar_ende.english_clauses import sentence_tree
from grammar_ende.german_clauses import sentence_words
from grammar_ende.lexicon import adverbials, modifiers, verbs
from grammar_ende.lexicon.entries import Adjective, Noun, Phrase, Preposition, Verb
from grammar_ende.lexicon.nouns import NOUNS
from grammar_ende.spelling import written_english, written_german

PRESENT, PAST = Tense.PRESENT, Tense.PAST
PERFECT, FUTURE = Tense.PERFECT, Tense.FUTURE
ANNA = Name("Anna", "Anna", modifiers.SHE)
HE, SHE, ME, YOU, THEY = (
    modifiers.HE,
    modifiers.SHE,
    modifiers.I_PRONOUN,
    modifiers.YOU,
    modifiers.THEY,
)


def noun_entry(en: str) -> Noun:
    """Returns the noun of an English word."""
    return next(noun for noun in NOUNS if noun.en == en)


def the(en: str, **more: Any) -> NounPhrase:
    """Returns "the" and the noun."""
    return NounPhrase(modifiers.THE, noun_entry(en), **more)


def a(en: str) -> NounPhrase:
    """Returns "a" and the noun."""
    return NounPhrase(modifiers.A, noun_entry(en))


def verb_entry(table: tuple[Verb, ...], de: str) -> Verb:
    """Returns the verb of a German infinitive."""
    return next(verb for verb in table if verb.de_prefix + verb.de == de)


def adjective_entry(en: str) -> Adjective:
    """Returns the adjective of an English word."""
    return next(each for each in modifiers.ADJECTIVES if each.en == en)


def time(de: str) -> Phrase:
    """Returns the adverbial of German words."""
    known = (
        *adverbials.PRESENT_TIMES,
        *adverbials.PAST_TIMES,
        *adverbials.FUTURE_TIMES,
    )
    return next(phrase for phrase in known if phrase.de == de)


SLEEP = verb_entry(verbs.INTRANSITIVE, "schlafen")
GET_UP = verb_entry(verbs.INTRANSITIVE, "aufstehen")
READ = verb_entry(verbs.TRANSITIVE, "lesen")
BUY = verb_entry(verbs.TRANSITIVE, "kaufen")
SEE = verb_entry(verbs.TRANSITIVE, "sehen")
CALL = verb_entry(verbs.TRANSITIVE, "anrufen")
PICK_UP = verb_entry(verbs.TRANSITIVE, "abholen")
SEEK = verb_entry(verbs.TRANSITIVE, "suchen")
HELP = verb_entry(verbs.DATIVE, "helfen")
GIVE = verb_entry(verbs.DITRANSITIVE, "geben")
EXPLAIN = verb_entry(verbs.DITRANSITIVE, "erklären")
SPEAK = next(verb for verb in verbs.PREPOSITIONAL if verb.en == "speak")
GO = verb_entry(verbs.MOTION, "gehen")
KNOW = verb_entry(verbs.CLAUSAL, "wissen")
TRY = verb_entry(verbs.INFINITIVAL, "versuchen")
BE = verbs.COPULAS[0]
IN_GARDEN = Oblique(modifiers.IN, the("garden"))
WITH_MAN = Oblique(Preposition("with", "mit", SPEAK.preposition.case), the("man"))
OLD = adjective_entry("old")
READS_BOOK = Clause(the("woman"), READ, PRESENT, direct=the("book"))
TODAY = time("heute")
SLEEPS = Clause(the("dog"), SLEEP, PRESENT)


def all_verbs() -> Iterator[Verb]:
    """Yields the verbs of all tables."""
    for value in vars(verbs).values():
        if isinstance(value, Verb):
            yield value
        elif isinstance(value, tuple):
            yield from value


def spoken(sentence: Sentence) -> tuple[str, str]:
    """Returns a sentence in English and German spelling."""
    tokens = [leaf.word for leaf in sentence_tree(sentence).leaves()]
    return written_english(tokens), written_german(sentence_words(sentence))
