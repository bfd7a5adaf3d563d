"""German phrases as lists of words: noun phrases, prepositions, times, qualities."""

from types import MappingProxyType

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
from grammar_ende.german_inflection import (
    article,
    attributive,
    noun_form,
    pronoun_form,
)
from grammar_ende.lexicon.entries import Case, Phrase, Preposition, Pronoun
from grammar_ende.lexicon.modifiers import THE
from grammar_ende.origins import in_order, merged, phrase_words, respelled, within
from grammar_ende.spelled_numbers import german_number

_CONTRACTIONS = MappingProxyType(
    {
        ("in", "dem"): "im",
        ("in", "das"): "ins",
        ("an", "dem"): "am",
        ("an", "das"): "ans",
        ("zu", "dem"): "zum",
        ("zu", "der"): "zur",
        ("von", "dem"): "vom",
    }
)


def nominal_words(nominal: Nominal, case: Case) -> list[str]:
    """Returns the words of a nominal in a case, without its relative clause."""
    if isinstance(nominal, Pronoun):
        return [pronoun_form(nominal, case)]
    if isinstance(nominal, Name):
        is_oblique = case is not Case.NOMINATIVE and nominal.de_oblique
        return in_order((nominal.de_oblique if is_oblique else nominal.de).split())
    if isinstance(nominal, Pair):
        first = within("first", nominal_words(nominal.first, case))
        second = within("second", nominal_words(nominal.second, case))
        return [*first, *within("and", ["und"]), *second]
    return _noun_phrase(nominal, case)


def oblique_words(oblique: Oblique) -> list[str]:
    """Returns preposition and nominal, contracted where German does: `im Garten`."""
    preposition = oblique.preposition
    words = within("nominal", nominal_words(oblique.nominal, preposition.case))
    opening = within("preposition", preposition.de.split())
    short = _CONTRACTIONS.get((preposition.de, words[0]))
    if short is not None and _has_definite_article(oblique.nominal):
        return [merged(short, [*opening, words[0]]), *words[1:]]
    return [*opening, *words]


def governed_case(preposition: Preposition | None) -> Case:
    """Returns the case after a preposition.

    Raises:
        ValueError: if there is none.
    """
    if preposition is None:
        raise ValueError("preposition must be given. Received: None")
    return preposition.case


def time_words(time: Time) -> list[str]:
    """Returns the adverbial of time."""
    if isinstance(time, Phrase):
        return phrase_words(time)
    if isinstance(time, ClockTime):
        hour = "ein" if time.hour == 1 else german_number(time.hour)
        return in_order(["um", hour, "Uhr"])
    if isinstance(time, Ago):
        return in_order(["vor", german_number(time.number), time.de_unit])
    return oblique_words(time)


def quality_words(quality: Quality) -> list[str]:
    """Returns the predicate adjective with its degree, standard or age."""
    adjective = quality.adjective
    plain = within("adjective", [adjective.de])
    if quality.years is not None:
        return [*in_order([german_number(quality.years), "Jahre"]), *plain]
    if quality.standard is not None:
        standard = within("nominal", nominal_words(quality.standard, Case.NOMINATIVE))
        if quality.is_equal:
            as_much = within("as", ["so"])
            return [*as_much, *plain, *within("preposition", ["wie"]), *standard]
        compared = within("adjective", [adjective.de_comparative])
        return [*compared, *within("preposition", ["als"]), *standard]
    degree = phrase_words(quality.degree) if quality.degree is not None else []
    return [*within("degree", degree), *plain]


def _noun_phrase(phrase: NounPhrase, case: Case) -> list[str]:
    noun, is_plural = phrase.noun, phrase.is_plural
    determiner, possessor = phrase.determiner, phrase.possessor
    pattern = determiner.de_pattern
    words = article(determiner, case, noun.gender, is_plural).split()
    words = within("determiner", in_order(words))
    owner: list[str] = []
    if isinstance(possessor, Name):
        # Annas altes Haus: the name takes the article's place, the endings are strong.
        *titles, name = within("possessor", nominal_words(possessor, Case.NOMINATIVE))
        words, pattern = [*titles, respelled(name, name + "s")], "bare"
    elif possessor is not None:
        owner = within("possessor", nominal_words(possessor, Case.GENITIVE))
    if phrase.number is not None:
        words += within("number", [german_number(phrase.number)])
    if phrase.adjective is not None:
        ending = pattern, case, noun.gender, is_plural
        words += within("adjective", [attributive(phrase.adjective, *ending)])
    form = noun_form(noun, case, is_plural)
    parts = within("noun", [form])
    if phrase.compound is not None:
        parts = [*within("compound", [phrase.compound[1]]), *parts]
        form = phrase.compound[1] + form.lower()
    return [*words, merged(form, parts), *owner]


def _has_definite_article(nominal: Nominal) -> bool:
    if isinstance(nominal, Pair):
        return False
    return isinstance(nominal, NounPhrase) and nominal.determiner == THE
