"""English word forms and their part-of-speech tags."""

import dataclasses
import itertools

from grammar_ende.derivation import Clause, Tense, is_plural, person
from grammar_ende.lexicon.verbs import COPULAS
from grammar_ende.origins import unaligned, within
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
        be = _active_chain(active, needs_auxiliary, "passive")
        return [*be, *within("verb", [participle])]
    return _active_chain(clause, needs_auxiliary, "verb")


def _active_chain(clause: Clause, needs_auxiliary: bool, part: str) -> list[Tree]:
    """Returns the verbs; `part` is what the last one expresses."""
    verb, tense = clause.verb, clause.tense
    modal = clause.modal
    if modal is not None and " " in modal.en:
        auxiliary, wish = modal.en.split()  # would like
        would = within("modal", [leaf("MD", auxiliary)])
        return [*would, *_infinitives([("do", ""), (wish, "modal"), (verb.en, part)])]
    infinitive = within(part, [leaf("VB", verb.en)])
    if modal is not None and modal.is_auxiliary:
        return [*within("modal", [leaf("MD", modal.en)]), *infinitive]
    if tense is Tense.FUTURE:
        return [*within("auxiliary", [leaf("MD", "will")]), *infinitive]
    if tense is Tense.PERFECT:
        have = finite_verb("have", "had", Tense.PRESENT, clause)
        participle = leaf("VBN", verb.en_participle)
        return [*within("auxiliary", [have]), *within(part, [participle])]
    chain = [(verb.en, part)]
    past = verb.en_past
    if clause.likes:
        chain.insert(0, ("like", "likes"))
        past = "liked"
    if modal is not None:
        chain.insert(0, (modal.en, "modal"))
        past = "had" if modal.en == "have" else modal.en + "ed"
        tense = Tense.PAST if modal.is_past else Tense.PRESENT
    if needs_auxiliary and chain[0][0] != "be":
        chain.insert(0, ("do", ""))
        past = "did"
    base, first_part = chain[0]
    first = finite_verb(base, past, tense, clause)
    return [_marked(first_part, first), *_infinitives(chain)]


def starts_with_auxiliary(chain: list[Tree]) -> bool:
    """Returns whether the first verb of a chain can be negated and moved."""
    first = chain[0]
    if first.label == "MD" or first.word in ("is", "are", "am", "was", "were"):
        return True
    follows = chain[1].label if len(chain) > 1 else ""
    return follows == "VBN" or first.word in ("do", "does", "did")


def _infinitives(chain: list[tuple[str, str]]) -> list[Tree]:
    """Returns the verbs after the first, each with the part that it expresses."""
    verbs: list[Tree] = []
    for (previous, _), (base, part) in itertools.pairwise(chain):
        if previous != "do":
            verbs.append(_marked("", leaf("TO", "to")))
        verbs.append(_marked(part, leaf("VB", base)))
    return verbs


def _marked(part: str, tree: Tree) -> Tree:
    """Returns a verb with the part that it expresses; without one, it is unaligned."""
    [marked] = within(part, [tree]) if part else unaligned([tree])
    return marked


def _finite_be(tense: Tense, subject_person: int, plural: bool) -> Tree:
    is_singular = not plural and subject_person != 2
    if tense is Tense.PAST:
        return leaf("VBD", "was" if is_singular else "were")
    if not is_singular:
        return leaf("VBP", "are")
    return leaf("VBP", "am") if subject_person == 1 else leaf("VBZ", "is")
