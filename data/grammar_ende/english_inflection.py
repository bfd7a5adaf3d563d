"""English word forms and their part-of-speech tags."""

import dataclasses
import itertools

from grammar_ende.derivation import Clause, Tense, is_plural, person
from grammar_ende.lexicon.verbs import COPULAS
from grammar_ende.trees import Tree, leaf

_BE = COPULAS[0]
_VOWELS = "aeiou"
_SIBILANTS = ("s", "sh", "ch", "x", "z", "o")


def third_person(base: str) -> str:
    """Returns the present form with -s: `goes`, `tries`, `has`, `is`."""
    if base in ("have", "be"):
        return {"have": "has", "be": "is"}[base]
    if base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(_SIBILANTS) else "s")


def indefinite_article(next_word: str) -> str:
    """Returns `a` or `an` for the word that follows."""
    return "an" if next_word[0] in _VOWELS else "a"


def finite_verb(base: str, past: str, tense: Tense, clause: Clause) -> Tree:
    """Returns the verb agreeing with the subject, in the present or the past."""
    subject_person, plural = person(clause.subject), is_plural(clause.subject)
    is_third = subject_person == 3 and not plural
    if base == "be":
        return _finite_be(tense, subject_person, plural)
    if tense is Tense.PAST:
        return leaf("VBD", past)
    # "you" is a plural form in English even where German has du.
    return leaf("VBZ", third_person(base)) if is_third else leaf("VBP", base)


def verb_chain(clause: Clause, needs_auxiliary: bool) -> list[Tree]:
    """Returns the verbs of a finite clause in order, `to` included.

    Args:
        clause: what is said.
        needs_auxiliary: whether the first verb has to be one that can be negated
            and moved; if no other is there, that is `do`.
    """
    if clause.is_passive:
        active = dataclasses.replace(clause, verb=_BE, is_passive=False)
        participle = leaf("VBN", clause.verb.en_participle)
        return [*verb_chain(active, needs_auxiliary), participle]
    verb, tense = clause.verb, clause.tense
    modal = clause.modal
    if modal is not None and " " in modal.en:
        auxiliary, wish = modal.en.split()  # would like
        return [leaf("MD", auxiliary), *_infinitives(["do", wish, verb.en])]
    if modal is not None and modal.is_auxiliary:
        return [leaf("MD", modal.en), leaf("VB", verb.en)]
    if tense is Tense.FUTURE:
        return [leaf("MD", "will"), leaf("VB", verb.en)]
    if tense is Tense.PERFECT:
        have = finite_verb("have", "had", Tense.PRESENT, clause)
        return [have, leaf("VBN", verb.en_participle)]
    chain = [(verb.en, verb.en_past)]
    if clause.likes:
        chain.insert(0, ("like", "liked"))
    if modal is not None:
        chain.insert(0, (modal.en, "had" if modal.en == "have" else modal.en + "ed"))
        tense = Tense.PAST if modal.is_past else Tense.PRESENT
    if needs_auxiliary and chain[0][0] != "be":
        chain.insert(0, ("do", "did"))
    first = finite_verb(*chain[0], tense, clause)
    return [first, *_infinitives([base for base, _ in chain])]


def starts_with_auxiliary(chain: list[Tree]) -> bool:
    """Returns whether the first verb of a chain can be negated and moved."""
    first = chain[0]
    if first.label == "MD" or first.word in ("is", "are", "am", "was", "were"):
        return True
    follows = chain[1].label if len(chain) > 1 else ""
    return follows == "VBN" or first.word in ("do", "does", "did")


def _infinitives(bases: list[str]) -> list[Tree]:
    verbs: list[Tree] = []
    for previous, base in itertools.pairwise(bases):
        if previous != "do":
            verbs.append(leaf("TO", "to"))
        verbs.append(leaf("VB", base))
    return verbs


def _finite_be(tense: Tense, subject_person: int, plural: bool) -> Tree:
    is_singular = not plural and subject_person != 2
    if tense is Tense.PAST:
        return leaf("VBD", "was" if is_singular else "were")
    if not is_singular:
        return leaf("VBP", "are")
    return leaf("VBP", "am") if subject_person == 1 else leaf("VBZ", "is")
