"""Draws whole sentences of a formal letter."""

import dataclasses
import random

from grammar_ende.admission import can_be_said
from grammar_ende.derivation import (
    Announcement,
    Clause,
    NounPhrase,
    Oblique,
    RelativeClause,
    Request,
    Role,
    Sentence,
    Statement,
    Subordination,
    Tense,
    WhQuestion,
    YesNoQuestion,
    is_definite,
)
from grammar_ende.lexicon import modifiers
from grammar_ende.sample_nominals import weighted

from business_ende import lexicon
from business_ende.sample_clauses import (
    Wish,
    draw_clause,
    draw_passive,
    draw_quality,
)
from business_ende.sample_phrases import (
    draw_definite_phrase,
    draw_nominal,
    draw_recipient,
    draw_time,
)

# Numbers of pairs to train on, to choose a model with and to score it with.
SIZES = (12_000, 1_000, 1_000)
_SIE = Wish(lexicon.SIE)


def draw_sentence(rng: random.Random) -> Sentence:
    """Returns one sentence that both languages express in one way."""
    draw = weighted(
        rng,
        (
            (_statement, 20),
            (_passive, 15),
            (_request, 14),
            (_polite_question, 9),
            (_wish, 8),
            (_announcement, 10),
            (_thanks, 3),
            (_subordination, 9),
            (_question, 5),
            (_quality, 5),
            (_infinitive, 4),
            (_content, 4),
            (_described, 6),
        ),
    )
    return draw(rng)


def _statement(rng: random.Random) -> Sentence:
    return Statement(_fronted(rng, draw_clause(rng)))


def _passive(rng: random.Random) -> Sentence:
    return Statement(_fronted(rng, draw_passive(rng)))


def _quality(rng: random.Random) -> Sentence:
    return Statement(_fronted(rng, draw_quality(rng)))


def _fronted(rng: random.Random, clause: Clause) -> Clause:
    """Returns the clause, now and then opened by an adverb: `Unfortunately, …`."""
    if clause.time is not None or rng.random() > 0.22:
        return clause
    adverb = rng.choice(lexicon.SENTENCE_ADVERBS)
    return dataclasses.replace(clause, time=adverb, fronts_time=True)


def _request(rng: random.Random) -> Sentence:
    return Request(_order(rng))


def _order(rng: random.Random) -> Clause:
    """Returns what you are to do: with a deadline, a manner, or neither."""
    clause = draw_clause(rng, _SIE._replace(tense=Tense.PRESENT, is_bare=True))
    if "happens" in clause.verb.flags:
        return _order(rng)
    if rng.random() < 0.4:
        return dataclasses.replace(clause, time=rng.choice(lexicon.DEADLINES))
    if "manner" in clause.verb.flags and rng.random() < 0.4:
        return dataclasses.replace(clause, manner=rng.choice(lexicon.MANNERS))
    is_definite_object = clause.direct is None or is_definite(clause.direct)
    oblique = clause.oblique
    is_clear = is_definite_object and (oblique is None or is_definite(oblique.nominal))
    if is_clear and rng.random() < 0.2:
        return dataclasses.replace(clause, is_negated=True)
    return clause


def _polite_question(rng: random.Random) -> Sentence:
    order = dataclasses.replace(_order(rng), is_negated=False)
    return YesNoQuestion(
        dataclasses.replace(order, modal=lexicon.COULD_YOU, asks_politely=True)
    )


def _wish(rng: random.Random) -> Sentence:
    subject = rng.choice((modifiers.WE, modifiers.WE, modifiers.I_PRONOUN, lexicon.SIE))
    clause = draw_clause(
        rng, Wish(subject, Tense.PRESENT, lexicon.WOULD_LIKE, is_bare=True)
    )
    if rng.random() < 0.35:
        clause = dataclasses.replace(clause, time=draw_time(rng, clause))
    return YesNoQuestion(clause) if subject is lexicon.SIE else Statement(clause)


def _announcement(rng: random.Random) -> Sentence:
    clause = draw_passive(rng) if rng.random() < 0.5 else draw_clause(rng)
    if rng.random() < 0.7:
        return Announcement(rng.choice(lexicon.STATED), lexicon.THAT, clause)
    return Announcement(rng.choice(lexicon.ASKED), lexicon.WHETHER, clause)


def _thanks(rng: random.Random) -> Sentence:
    while True:
        noun = draw_definite_phrase(rng, frozenset({"document", "matter", "goods"}))
        subject = rng.choice((modifiers.WE, modifiers.I_PRONOUN))
        clause = Clause(
            subject,
            lexicon.THANK,
            Tense.PRESENT,
            recipient=draw_recipient(rng),
            oblique=Oblique(lexicon.FOR, noun),
        )
        # Nobody thanks himself: "we" and "me" share nobody either.
        if clause.recipient not in (modifiers.WE, modifiers.I_PRONOUN):
            return Statement(clause)


def _subordination(rng: random.Random) -> Sentence:
    conjunction, tense = weighted(
        rng,
        (
            ((lexicon.IF, Tense.PRESENT), 24),
            ((lexicon.PROVIDED, Tense.PRESENT), 14),
            ((lexicon.AS_SOON_AS, Tense.PERFECT), 26),
            ((lexicon.BECAUSE, None), 20),
            ((lexicon.ALTHOUGH, None), 16),
        ),
    )
    main_tense = Tense.FUTURE if tense is not None else None
    draw = draw_passive if rng.random() < 0.3 else draw_clause
    subordinate = draw(rng, Wish(tense=tense, is_bare=rng.random() < 0.7))
    main = draw_clause(rng, Wish(tense=main_tense, is_bare=True))
    is_fronted = rng.random() < 0.5
    return Subordination(main, conjunction, subordinate, is_fronted)


def _question(rng: random.Random) -> Sentence:
    draw = draw_passive if rng.random() < 0.4 else draw_clause
    kind = weighted(rng, (("yes", 50), ("why", 25), ("when", 25)))
    clause = draw(rng, Wish(is_bare=True))
    if kind == "yes":
        return YesNoQuestion(clause)
    if kind == "why":
        return WhQuestion(clause, Role.CAUSE, lexicon.WHY)
    return WhQuestion(clause, Role.TIME, lexicon.WHEN_ASKED)


def _infinitive(rng: random.Random) -> Sentence:
    verb = rng.choice(lexicon.INFINITIVAL)
    subject = draw_nominal(rng, verb.subjects)
    tenses = (Tense.PRESENT, Tense.PAST)
    if not verb.is_stative:
        tenses = (*tenses, Tense.PERFECT)
    inner = draw_clause(rng, Wish(modifiers.WE, Tense.PRESENT, is_bare=True))
    inner = dataclasses.replace(inner, subject=subject)
    clause = Clause(subject, verb, rng.choice(tenses), infinitive=inner)
    # The inner subject has changed: it must not act on itself.
    return Statement(clause) if can_be_said(inner) else _infinitive(rng)


def _content(rng: random.Random) -> Sentence:
    verb = rng.choice(lexicon.CLAUSAL)
    subject = draw_nominal(rng, verb.subjects)
    tense = Tense.PRESENT if verb.is_stative else rng.choice(tuple(Tense))
    draw = draw_passive if rng.random() < 0.4 else draw_clause
    content = (lexicon.THAT, draw(rng))
    return Statement(Clause(subject, verb, tense, content=content))


def _described(rng: random.Random) -> Sentence:
    """Returns a request or a statement about something that a clause describes."""
    while True:
        is_request = rng.random() < 0.5
        subject = lexicon.SIE if is_request else modifiers.WE
        tense = Tense.PRESENT if is_request else Tense.PERFECT
        verbs = tuple(
            each
            for each in (*lexicon.TRANSITIVE, *lexicon.DITRANSITIVE)
            if not each.en_preposition and "happens" not in each.flags
        )
        clause = draw_clause(rng, Wish(subject, tense, verbs=verbs, is_bare=True))
        direct = clause.direct
        if not isinstance(direct, NounPhrase) or direct.possessor is not None:
            continue
        if not is_definite(direct):
            continue
        described = dataclasses.replace(direct, relative=_relative(rng, direct))
        clause = dataclasses.replace(clause, direct=described)
        return Request(clause) if is_request else Statement(clause)


def _relative(rng: random.Random, phrase: NounPhrase) -> RelativeClause:
    groups = phrase.noun.groups
    verbs = tuple(
        each
        for each in (*lexicon.TRANSITIVE, *lexicon.DITRANSITIVE)
        if each.objects & groups and not each.en_preposition
    )
    tense = rng.choice((Tense.PAST, Tense.PERFECT))
    if "person" in groups and rng.random() < 0.7:
        wish = Wish(phrase, tense, is_bare=True)
        return RelativeClause(Role.SUBJECT, draw_clause(rng, wish))
    while True:
        clause = draw_clause(rng, Wish(tense=tense, verbs=verbs, is_bare=True))
        subject = clause.subject
        if not isinstance(subject, NounPhrase) or subject.noun != phrase.noun:
            break
    return RelativeClause(Role.DIRECT, dataclasses.replace(clause, direct=None))
