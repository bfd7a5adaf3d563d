"""Draws clauses of a formal letter: active, passive, with qualities."""

import dataclasses
import random
from typing import NamedTuple

from grammar_ende.admission import can_be_said
from grammar_ende.derivation import (
    Clause,
    Nominal,
    NounPhrase,
    Oblique,
    Quality,
    Tense,
    is_definite,
)
from grammar_ende.lexicon import modifiers
from grammar_ende.lexicon.entries import Verb
from grammar_ende.lexicon.modifiers import Modal
from grammar_ende.lexicon.verbs import COPULAS
from grammar_ende.sample_nominals import weighted

from business_ende import lexicon
from business_ende.sample_phrases import (
    Groups,
    adjectives_for,
    draw_cause,
    draw_definite_phrase,
    draw_nominal,
    draw_noun_phrase,
    draw_place,
    draw_recipient,
    draw_time,
    nouns_in,
)

_BODIES: Groups = frozenset({"person", "body"})
_VERBS: tuple[tuple[tuple[Verb, ...], float], ...] = (
    (lexicon.TRANSITIVE, 58),
    (lexicon.DITRANSITIVE, 24),
    (lexicon.PREPOSITIONAL, 12),
    (lexicon.DATIVE, 6),
)
_TENSES: tuple[tuple[Tense, float], ...] = (
    (Tense.PRESENT, 26),
    (Tense.PAST, 22),
    (Tense.PERFECT, 30),
    (Tense.FUTURE, 22),
)


class Wish(NamedTuple):
    """Conditions of the surrounding sentence on a clause.

    `subject`, `tense` and `modal` None leave each open; `verbs` None allows all.
    `is_bare` leaves out negation and free adverbials.
    """

    subject: Nominal | None = None
    tense: Tense | None = None
    modal: Modal | None = None
    verbs: tuple[Verb, ...] | None = None
    is_bare: bool = False


_ANY = Wish()


def draw_clause(rng: random.Random, wish: Wish = _ANY) -> Clause:
    """Returns an active clause that grants the wish."""
    while True:
        verb = rng.choice(wish.verbs or weighted(rng, _VERBS))
        if wish.subject is not None and "person" not in verb.subjects:
            continue
        subject = wish.subject or draw_nominal(rng, verb.subjects)
        clause = with_objects(rng, Clause(subject, verb, wish.tense or Tense.PRESENT))
        clause = _settled(rng, clause, wish)
        if can_be_said(clause):
            return clause


def draw_passive(rng: random.Random, wish: Wish = _ANY) -> Clause:
    """Returns a passive clause: its subject is what somebody does something to."""
    while True:
        verb = rng.choice(lexicon.TRANSITIVE)
        things = verb.objects - {"person"}
        if not things:
            continue
        subject = draw_noun_phrase(rng, frozenset({rng.choice(sorted(things))}))
        clause = Clause(subject, verb, wish.tense or Tense.PRESENT, is_passive=True)
        clause = _settled(rng, clause, wish)
        if not clause.is_negated and rng.random() < 0.25:
            agent = draw_definite_phrase(rng, _BODIES)
            clause = dataclasses.replace(clause, company=Oblique(lexicon.BY, agent))
        if can_be_said(clause):
            return clause


def draw_quality(rng: random.Random) -> Clause:
    """Returns a clause that says how something is: plain, with a degree, compared."""
    groups = frozenset({rng.choice(("document", "goods", "matter", "place", "person"))})
    subject = draw_definite_phrase(rng, groups)
    adjective = rng.choice(adjectives_for(subject.noun.groups))
    subject = dataclasses.replace(subject, adjective=None)
    kind = weighted(rng, (("", 40), ("degree", 30), ("compared", 30)))
    quality = Quality(adjective)
    if kind == "degree":
        quality = Quality(adjective, degree=rng.choice(lexicon.DEGREES))
    elif kind == "compared" and adjective.de_comparative != "-":
        others = [each for each in nouns_in(adjective.groups) if each != subject.noun]
        standard = NounPhrase(weighted(rng, lexicon.POSSESSIVES), rng.choice(others))
        quality = Quality(adjective, standard=standard)
    tense = weighted(rng, ((Tense.PRESENT, 60), (Tense.PAST, 40)))
    is_negated = quality.standard is None and rng.random() < 0.15
    clause = Clause(subject, COPULAS[0], tense, quality=quality, is_negated=is_negated)
    return clause if can_be_said(clause) else draw_quality(rng)


def with_objects(rng: random.Random, clause: Clause) -> Clause:
    """Returns the clause with the complements of its verb."""
    verb = clause.verb
    group = frozenset({rng.choice(sorted(verb.objects))})
    if verb in lexicon.DATIVE:
        recipient = draw_recipient(rng)
        if "person" not in group:
            recipient = draw_definite_phrase(rng, group)
        return dataclasses.replace(clause, recipient=recipient)
    if verb.preposition is not None:
        preposition = verb.preposition._replace(en=verb.en_preposition)
        oblique = Oblique(preposition, draw_noun_phrase(rng, group))
        return dataclasses.replace(clause, oblique=oblique)
    if verb in lexicon.DITRANSITIVE:
        clause = dataclasses.replace(clause, recipient=draw_recipient(rng))
        return dataclasses.replace(clause, direct=draw_noun_phrase(rng, group))
    return dataclasses.replace(clause, direct=draw_nominal(rng, group))


def _settled(rng: random.Random, clause: Clause, wish: Wish) -> Clause:
    """Returns the clause with tense or modal, negation and adverbials."""
    is_negated = not wish.is_bare and rng.random() < 0.1
    modal = wish.modal
    if wish.tense is None and modal is None:
        clause = dataclasses.replace(clause, tense=weighted(rng, _TENSES))
        if rng.random() < 0.2:
            modals = lexicon.MODALS_NEGATED if is_negated else lexicon.MODALS_AFFIRMED
            modal = rng.choice(modals)
            clause = dataclasses.replace(clause, tense=Tense.PRESENT)
    clause = dataclasses.replace(clause, modal=modal)
    if is_negated:
        return _negated(rng, clause)
    return clause if wish.is_bare else with_adverbials(rng, clause)


def _negated(rng: random.Random, clause: Clause) -> Clause:
    """Returns the clause with "not", in German with `kein` before a bare object."""
    direct = clause.direct
    if isinstance(direct, NounPhrase) and not is_definite(direct):
        replaced = {modifiers.A: modifiers.NOT_A, modifiers.BARE: modifiers.NOT_BARE}
        determiner = replaced.get(direct.determiner, direct.determiner)
        direct = dataclasses.replace(direct, determiner=determiner)
    clause = dataclasses.replace(clause, is_negated=True, direct=direct)
    if rng.random() < 0.3:
        return dataclasses.replace(clause, time=draw_time(rng, clause))
    return clause


def with_adverbials(rng: random.Random, clause: Clause) -> Clause:
    """Returns the clause with at most a time or a frequency and one other adverbial."""
    if rng.random() < 0.42:
        clause = dataclasses.replace(clause, time=draw_time(rng, clause))
    elif clause.modal is None and rng.random() < 0.25:
        adverbs = {
            Tense.PRESENT: lexicon.PRESENT_ADVERBS,
            Tense.PERFECT: lexicon.PERFECT_ADVERBS,
        }.get(clause.tense)
        if adverbs is not None:
            clause = dataclasses.replace(clause, adverb=rng.choice(adverbs))
    kind = weighted(
        rng, (("", 50), ("manner", 24), ("cause", 12), ("behalf", 8), ("place", 6))
    )
    if kind == "manner" and "manner" in clause.verb.flags:
        return dataclasses.replace(clause, manner=rng.choice(lexicon.MANNERS))
    if kind == "cause":
        return dataclasses.replace(clause, cause=draw_cause(rng))
    if kind == "behalf" and not clause.is_passive:
        client = draw_definite_phrase(rng, _BODIES)
        return dataclasses.replace(
            clause, company=Oblique(lexicon.ON_BEHALF_OF, client)
        )
    if kind == "place" and "place" in clause.verb.flags:
        return dataclasses.replace(clause, place=draw_place(rng))
    return clause
