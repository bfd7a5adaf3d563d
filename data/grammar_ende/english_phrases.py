"""English phrases: noun phrases, prepositional phrases, times, qualities."""

from grammar_ende.derivation import (
    Ago,
    ClockTime,
    Name,
    Nominal,
    NounPhrase,
    Oblique,
    Pair,
    Quality,
    Time,
)
from grammar_ende.english_inflection import indefinite_article
from grammar_ende.lexicon.entries import Adjective, Phrase, Pronoun
from grammar_ende.lexicon.modifiers import NOT_A, A
from grammar_ende.spelled_numbers import english_number
from grammar_ende.trees import Tree, leaf, node, read_tree


def nominal_tree(nominal: Nominal, is_subject: bool = False) -> Tree:
    """Returns the noun phrase of a nominal, without its relative clause."""
    if isinstance(nominal, Pronoun):
        word = nominal.en_subject if is_subject else nominal.en_object
        return node("NP", leaf("PRP", word))
    if isinstance(nominal, Name):
        return node("NP", *(leaf("NNP", word) for word in nominal.en.split()))
    if isinstance(nominal, Pair):
        first, second = nominal_tree(nominal.first), nominal_tree(nominal.second)
        return node("NP", first, leaf("CC", "and"), second)
    words = _noun_words(nominal)
    if nominal.possessor is not None:
        owner = nominal_tree(nominal.possessor)
        return node("NP", Tree("NP", (*owner.children, leaf("POS", "'s"))), *words)
    determiner = nominal.determiner
    article = determiner.en_plural if nominal.is_plural else determiner.en
    if determiner in (A, NOT_A) and article:
        article = indefinite_article(words[0].word)
    if not article:
        return node("NP", *words)
    tags = determiner.en_tag.split()
    opening = [leaf(*pair) for pair in zip(tags, article.split(), strict=True)]
    return node("NP", *opening, *words)


def preposition_leaves(preposition: str) -> list[Tree]:
    """Returns the words of a preposition: `in`, `in front of`."""
    if preposition == "to":
        return [leaf("TO", "to")]
    return [leaf("IN", word) for word in preposition.split()]


def oblique_tree(oblique: Oblique) -> Tree:
    """Returns the prepositional phrase."""
    return prepositional(oblique.preposition.en, oblique.nominal)


def prepositional(preposition: str, nominal: Nominal) -> Tree:
    """Returns a preposition over a nominal."""
    return node("PP", *preposition_leaves(preposition), nominal_tree(nominal))


def time_tree(time: Time) -> Tree:
    """Returns the adverbial of time."""
    if isinstance(time, Phrase):
        return read_tree(time.en)
    if isinstance(time, ClockTime):
        hour = leaf("CD", english_number(time.hour))
        clock = node("NP", hour, leaf("RB", "o'clock"))
        return node("PP", leaf("IN", "at"), clock)
    if isinstance(time, Ago):
        number = leaf("CD", english_number(time.number))
        span = node("NP", number, leaf("NNS", time.en_unit))
        return node("ADVP", span, leaf("RB", "ago"))
    return oblique_tree(time)


def quality_tree(quality: Quality) -> Tree:
    """Returns the predicate adjective with its degree, standard or age."""
    plain = leaf("JJ", quality.adjective.en)
    if quality.years is not None:
        number = leaf("CD", english_number(quality.years))
        return node("ADJP", node("NP", number, leaf("NNS", "years")), plain)
    if quality.standard is not None:
        if quality.is_equal:
            standard = prepositional("as", quality.standard)
            return node("ADJP", leaf("RB", "as"), plain, standard)
        compared = _comparative(quality.adjective)
        return node("ADJP", *compared, prepositional("than", quality.standard))
    if quality.degree is not None:
        return node("ADJP", read_tree(quality.degree.en), plain)
    return node("ADJP", plain)


def _comparative(adjective: Adjective) -> list[Tree]:
    if adjective.en_comparative.startswith("more "):
        return [leaf("RBR", "more"), leaf("JJ", adjective.en)]
    return [leaf("JJR", adjective.en_comparative)]


def _noun_words(phrase: NounPhrase) -> list[Tree]:
    words = []
    if phrase.number is not None:
        words.append(leaf("CD", english_number(phrase.number)))
    if phrase.adjective is not None:
        words.append(leaf("JJ", phrase.adjective.en))
    if phrase.compound is not None:
        words.append(leaf("NN", phrase.compound[0]))
    if phrase.is_plural:
        words.append(leaf("NNS", phrase.noun.en_plural))
    else:
        words.append(leaf("NN", phrase.noun.en))
    return words
