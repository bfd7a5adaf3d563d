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
from grammar_ende.origins import in_order, phrase_tree, within
from grammar_ende.spelled_numbers import english_number
from grammar_ende.trees import Tree, leaf, node


def nominal_tree(nominal: Nominal, is_subject: bool = False) -> Tree:
    """Returns the noun phrase of a nominal, without its relative clause."""
    if isinstance(nominal, Pronoun):
        word = nominal.en_subject if is_subject else nominal.en_object
        return node("NP", leaf("PRP", word))
    if isinstance(nominal, Name):
        return node("NP", *(leaf("NNP", each) for each in in_order(nominal.en.split())))
    if isinstance(nominal, Pair):
        [first] = within("first", [nominal_tree(nominal.first)])
        [second] = within("second", [nominal_tree(nominal.second)])
        return node("NP", first, *within("and", [leaf("CC", "and")]), second)
    words = _noun_words(nominal)
    if nominal.possessor is not None:
        [owner] = within("possessor", [nominal_tree(nominal.possessor)])
        [ending] = within("determiner", in_order([leaf("POS", "'s")]))
        return node("NP", Tree("NP", (*owner.children, ending)), *words)
    determiner = nominal.determiner
    article = determiner.en_plural if nominal.is_plural else determiner.en
    if determiner in (A, NOT_A) and article:
        article = indefinite_article(words[0].word)
    if not article:
        return node("NP", *words)
    tags = determiner.en_tag.split()
    opening = [leaf(*pair) for pair in zip(tags, article.split(), strict=True)]
    opening = within("determiner", in_order(opening))
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
    governed = within("nominal", [nominal_tree(nominal)])
    opening = within("preposition", preposition_leaves(preposition))
    return node("PP", *opening, *governed)


def time_tree(time: Time) -> Tree:
    """Returns the adverbial of time."""
    if isinstance(time, Phrase):
        return phrase_tree(time)
    if isinstance(time, ClockTime):
        number = leaf("CD", english_number(time.hour))
        at, hour, o_clock = in_order([leaf("IN", "at"), number, leaf("RB", "o'clock")])
        return node("PP", at, node("NP", hour, o_clock))
    if isinstance(time, Ago):
        number = leaf("CD", english_number(time.number))
        before = leaf("RB", "ago"), number, leaf("NNS", time.en_unit)
        ago, number, unit = in_order(before)
        return node("ADVP", node("NP", number, unit), ago)
    return oblique_tree(time)


def quality_tree(quality: Quality) -> Tree:
    """Returns the predicate adjective with its degree, standard or age."""
    [plain] = within("adjective", [leaf("JJ", quality.adjective.en)])
    if quality.years is not None:
        number = leaf("CD", english_number(quality.years))
        age = in_order([number, leaf("NNS", "years")])
        return node("ADJP", node("NP", *age), plain)
    if quality.standard is not None:
        if quality.is_equal:
            standard = prepositional("as", quality.standard)
            return node("ADJP", *within("as", [leaf("RB", "as")]), plain, standard)
        compared = _comparative(quality.adjective)
        return node("ADJP", *compared, prepositional("than", quality.standard))
    if quality.degree is not None:
        degree = within("degree", [phrase_tree(quality.degree)])
        return node("ADJP", *degree, plain)
    return node("ADJP", plain)


def _comparative(adjective: Adjective) -> list[Tree]:
    if adjective.en_comparative.startswith("more "):
        words = [leaf("RBR", "more"), leaf("JJ", adjective.en)]
    else:
        words = [leaf("JJR", adjective.en_comparative)]
    return within("adjective", words)


def _noun_words(phrase: NounPhrase) -> list[Tree]:
    words: list[Tree] = []
    if phrase.number is not None:
        words += within("number", [leaf("CD", english_number(phrase.number))])
    if phrase.adjective is not None:
        words += within("adjective", [leaf("JJ", phrase.adjective.en)])
    if phrase.compound is not None:
        words += within("compound", [leaf("NN", phrase.compound[0])])
    noun = leaf("NN", phrase.noun.en)
    if phrase.is_plural:
        noun = leaf("NNS", phrase.noun.en_plural)
    return [*words, *within("noun", [noun])]
