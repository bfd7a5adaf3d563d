"""German endings: articles, adjectives, nouns, pronouns, verbs.

Every table is a paradigm as a grammar prints it: one line a case (nominative,
accusative, dative, genitive), one column each for masculine, feminine, neuter and
plural; `-` is the empty ending.
"""

from types import MappingProxyType

from grammar_ende.lexicon.entries import (
    Adjective,
    Case,
    Determiner,
    Gender,
    Noun,
    Pronoun,
    Verb,
)

_DETERMINER_ENDINGS = MappingProxyType(
    {
        "der": (
            "der die das die",
            "den die das die",
            "dem der dem den",
            "des der des der",
        ),
        "dieser": ("er e es e", "en e es e", "em er em en", "es er es er"),
        "ein": ("- e - e", "en e - e", "em er em en", "es er es er"),
        "strong": ("er e es e", "en e es e", "em er em en", "es er es er"),
        "bare": ("- - - -", "- - - -", "- - - -", "- - - -"),
    }
)
_ADJECTIVE_ENDINGS = MappingProxyType(
    {
        # After der and dieser the article shows the case, the adjective need not.
        "der": ("e e e en", "en e e en", "en en en en", "en en en en"),
        "dieser": ("e e e en", "en e e en", "en en en en", "en en en en"),
        "ein": ("er e es en", "en e es en", "en en en en", "en en en en"),
        "strong": ("er e es e", "en e es e", "em er em en", "en er en er"),
        "bare": ("er e es e", "en e es e", "em er em en", "en er en er"),
    }
)
_RELATIVE = ("der die das die", "den die das die", "dem der dem denen")
_COLUMNS = (Gender.MASCULINE, Gender.FEMININE, Gender.NEUTER)


def _cell(table: tuple[str, ...], case: Case, gender: Gender, is_plural: bool) -> str:
    column = 3 if is_plural else _COLUMNS.index(gender)
    return table[case.value].split()[column].replace("-", "")


def article(determiner: Determiner, case: Case, gender: Gender, is_plural: bool) -> str:
    """Returns the determiner in its form before a noun; empty if it has none."""
    stem = determiner.de_plural if is_plural else determiner.de
    if determiner.de_pattern != "der" and not stem:
        return ""
    return stem + _cell(
        _DETERMINER_ENDINGS[determiner.de_pattern], case, gender, is_plural
    )


def attributive(
    adjective: Adjective, pattern: str, case: Case, gender: Gender, is_plural: bool
) -> str:
    """Returns the adjective before a noun, after a determiner of that pattern."""
    ending = _cell(_ADJECTIVE_ENDINGS[pattern], case, gender, is_plural)
    return adjective.de_stem + ending


def relative_pronoun(case: Case, gender: Gender, is_plural: bool) -> str:
    """Returns der, die, das … as it opens a relative clause."""
    return _cell(_RELATIVE, case, gender, is_plural)


def noun_form(noun: Noun, case: Case, is_plural: bool) -> str:
    """Returns the noun in a case.

    The dative plural adds -n unless the plural ends in -n or -s. A masculine noun
    with a genitive in -n is weak: it has that form in every case but the first.
    """
    if is_plural:
        takes_n = case is Case.DATIVE and noun.de_plural[-1] not in "ns"
        return noun.de_plural + ("n" if takes_n else "")
    is_weak = noun.gender is Gender.MASCULINE and noun.de_genitive.endswith("n")
    if case is Case.GENITIVE or (is_weak and case is not Case.NOMINATIVE):
        return noun.de_genitive
    return noun.de


def pronoun_form(pronoun: Pronoun, case: Case) -> str:
    """Returns the pronoun in the nominative, accusative or dative."""
    return {
        Case.NOMINATIVE: pronoun.de_nominative,
        Case.ACCUSATIVE: pronoun.de_accusative,
        Case.DATIVE: pronoun.de_dative,
    }[case]


def present(verb: Verb, person: int, is_plural: bool) -> str:
    """Returns the present of the stem verb, prefix left out: `stehe`, `liest`."""
    if verb.de == "sein":
        return "sind" if is_plural else ("bin", "bist", "ist")[person - 1]
    if is_plural:
        return verb.de
    if person == 3:
        return verb.de_third
    # wissen and mögen are old pasts: no -e and no -t.
    is_modal_like = not verb.de_third.endswith("t")
    if person == 1:
        return verb.de_third if is_modal_like else _first_person(verb.de)
    if is_modal_like:
        return verb.de_third + _second_ending(verb.de_third)
    stem = verb.de_third[:-1]
    return stem + _second_ending(stem)


def past(verb: Verb, person: int, is_plural: bool) -> str:
    """Returns the simple past, prefix left out: `stand`, `standen`, `kaufte`.

    Raises:
        ValueError: for the second person singular of a full verb, which German
            says in the perfect and the sampler never asks for.
    """
    if person == 2 and not is_plural:
        if verb.de not in ("sein", "haben"):
            raise ValueError(
                f"person must be 1 or 3 in the past of {verb.de}. Received: 2"
            )
        return {"sein": "warst", "haben": "hattest"}[verb.de]
    if not is_plural:
        return verb.de_past
    return verb.de_past + ("n" if verb.de_past.endswith("e") else "en")


def zu_infinitive(verb: Verb) -> list[str]:
    """Returns `zu lesen`, or the one word `aufzustehen`."""
    if verb.de_prefix:
        return [f"{verb.de_prefix}zu{verb.de}"]
    return ["zu", verb.de]


def _first_person(infinitive: str) -> str:
    if infinitive.endswith("eln"):
        return infinitive[:-3] + "le"
    stem = infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]
    return stem + "e"


def _second_ending(stem: str) -> str:
    return "t" if stem[-1] in "sßz" else "st"
