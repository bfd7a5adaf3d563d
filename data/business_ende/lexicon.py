"""Words and fixed phrases of formal letters: polite Sie, titles, deadlines, openings.

The English side of a phrase is a constituency tree in brackets.
"""

import pathlib

from grammar_ende.derivation import Name
from grammar_ende.lexicon import adverbials, modifiers
from grammar_ende.lexicon.entries import (
    Adjective,
    Case,
    Determiner,
    Noun,
    Phrase,
    Preposition,
    Pronoun,
    Verb,
    adjective_entries,
    noun_entries,
    verb_entries,
)
from grammar_ende.lexicon.modifiers import Modal
from grammar_ende.lexicon.tables import table_rows

_FOLDER = pathlib.Path(__file__).parent


def _verbs(section: str) -> tuple[Verb, ...]:
    return verb_entries(table_rows("verbs.txt", section, _FOLDER))


NOUNS: tuple[Noun, ...] = noun_entries(table_rows("nouns.txt", folder=_FOLDER))
ADJECTIVES: tuple[Adjective, ...] = adjective_entries(
    table_rows("adjectives.txt", folder=_FOLDER)
)
TRANSITIVE: tuple[Verb, ...] = _verbs("transitive")
DATIVE: tuple[Verb, ...] = _verbs("dative")
DITRANSITIVE: tuple[Verb, ...] = _verbs("ditransitive")
PREPOSITIONAL: tuple[Verb, ...] = _verbs("prepositional")
CLAUSAL: tuple[Verb, ...] = _verbs("clausal")
INFINITIVAL: tuple[Verb, ...] = _verbs("infinitival")

# Sie agrees like "they", and so does the English "you".
SIE = Pronoun("you", "you", "Sie", "Sie", "Ihnen", 3, True)
PERSONAL_PRONOUNS: tuple[tuple[Pronoun, float], ...] = (
    (modifiers.WE, 36),
    (SIE, 30),
    (modifiers.I_PRONOUN, 14),
    (modifiers.THEY, 8),
    (modifiers.HE, 6),
    (modifiers.SHE, 6),
)
OUR = modifiers.POSSESSIVES[4]
POSSESSIVES: tuple[tuple[Determiner, float], ...] = (
    (OUR, 42),
    (Determiner("your", "your", "PRP$", "Ihr", "Ihr", "ein", True), 40),
    (modifiers.POSSESSIVES[0], 8),
    (modifiers.POSSESSIVES[2], 4),
    (modifiers.POSSESSIVES[5], 6),
)
NAMES: tuple[Name, ...] = (
    *(
        Name(f"Mr. {name}", f"Herr {name}", modifiers.HE, f"Herrn {name}")
        for name in ("Weber", "Schneider", "Hoffmann", "Keller", "Brandt")
    ),
    *(
        Name(f"Ms. {name}", f"Frau {name}", modifiers.SHE)
        for name in ("Fischer", "Wagner", "Lehmann", "Vogel", "Krause")
    ),
)
# English modifier noun → first part of the German compound.
COMPOUND_MODIFIERS: tuple[tuple[str, str], ...] = (
    ("project", "Projekt"),
    ("delivery", "Liefer"),
    ("annual", "Jahres"),
    ("service", "Service"),
    ("insurance", "Versicherungs"),
    ("rental", "Miet"),
)

AT = Preposition("at", "in", Case.DATIVE)
BY = Preposition("by", "von", Case.DATIVE)
FOR = Preposition("for", "für", Case.ACCUSATIVE)
ON_BEHALF_OF = Preposition("on behalf of", "im Auftrag", Case.GENITIVE)
DUE_TO = Preposition("due to", "aufgrund", Case.GENITIVE)
DESPITE = modifiers.DESPITE
IN_ACCORDANCE_WITH = Preposition("in accordance with", "gemäß", Case.DATIVE)

WOULD_LIKE = Modal("would like", True, False, "möchte", "möchtest", "möchten")
COULD_YOU = Modal("could", True, False, "könnte", "könntest", "könnten")
MODALS_AFFIRMED: tuple[Modal, ...] = (
    modifiers.CAN,
    modifiers.MUST,
    modifiers.SHOULD,
)
MODALS_NEGATED: tuple[Modal, ...] = (
    modifiers.CAN,
    modifiers.MUST_NOT,
    modifiers.HAVE_TO,
    modifiers.SHOULD,
)
THANK: Verb = next(
    each
    for each in verb_entries(table_rows("verbs.txt", "dative"))
    if each.en == "thank"
)

_WEEKDAYS = adverbials.DAYS[:5]
PRESENT_TIMES: tuple[Phrase, ...] = (
    Phrase("(ADVP (RB currently))", "derzeit"),
    Phrase("(NP (DT this) (NN week))", "diese Woche"),
    Phrase("(NP (DT every) (NN month))", "jeden Monat"),
)
PAST_TIMES: tuple[Phrase, ...] = (
    Phrase("(NP (JJ last) (NN month))", "letzten Monat"),
    Phrase("(NP (JJ last) (NN week))", "letzte Woche"),
    Phrase("(NP (NN yesterday))", "gestern"),
    *_WEEKDAYS,
)
PERFECT_TIMES: tuple[Phrase, ...] = (
    Phrase("(ADVP (RB recently))", "kürzlich"),
    Phrase("(NP (DT this) (NN month))", "diesen Monat"),
)
DEADLINES: tuple[Phrase, ...] = (
    *(
        Phrase(f"(PP (IN by) (NP (NNP {en})))", f"bis {de}")
        for en, de in (
            ("Monday", "Montag"),
            ("Tuesday", "Dienstag"),
            ("Wednesday", "Mittwoch"),
            ("Thursday", "Donnerstag"),
            ("Friday", "Freitag"),
        )
    ),
    Phrase(
        "(PP (IN by) (NP (NP (DT the) (NN end)) "
        "(PP (IN of) (NP (DT the) (NN month)))))",
        "bis Ende des Monats",
        "0-0 2-1 3-2 4-2 5-3",
    ),
    *(
        Phrase(
            f"(PP (IN within) (NP (CD {en}) (NNS {en_unit})))",
            f"innerhalb von {de} {de_unit}",
            "0-0 0-1 1-2 2-3",
        )
        for en, en_unit, de, de_unit in (
            ("two", "weeks", "zwei", "Wochen"),
            ("ten", "days", "zehn", "Tagen"),
        )
    ),
    Phrase("(ADVP (RB immediately))", "umgehend"),
)
FUTURE_TIMES: tuple[Phrase, ...] = (
    Phrase("(NP (JJ next) (NN month))", "nächsten Monat"),
    Phrase("(ADVP (RB shortly))", "in Kürze"),
    Phrase("(NP (NN tomorrow))", "morgen"),
    *DEADLINES,
)
# Opening a sentence, before its verb in German.
SENTENCE_ADVERBS: tuple[Phrase, ...] = (
    Phrase("(ADVP (RB unfortunately) (, ,))", "leider"),
    Phrase("(ADVP (RB therefore) (, ,))", "daher"),
    Phrase("(ADVP (RB furthermore) (, ,))", "außerdem"),
    Phrase("(ADVP (RB meanwhile) (, ,))", "inzwischen"),
)
PRESENT_ADVERBS: tuple[Phrase, ...] = (
    Phrase("(ADVP (RB usually))", "in der Regel"),
    Phrase("(ADVP (RB regularly))", "regelmäßig"),
    Phrase("(ADVP (RB always))", "stets"),
)
PERFECT_ADVERBS: tuple[Phrase, ...] = (
    Phrase("(ADVP (RB already))", "bereits"),
    Phrase("(ADVP (RB now))", "nun"),
)
MANNERS: tuple[Phrase, ...] = (
    Phrase("(PP (IN in) (NP (NN writing)))", "schriftlich"),
    Phrase("(PP (IN by) (NP (NN telephone)))", "telefonisch"),
    Phrase("(PP (IN on) (NP (NN time)))", "pünktlich"),
    Phrase("(PP (IN in) (ADJP (JJ full)))", "vollständig"),
    Phrase("(ADVP (RB promptly))", "zügig"),
    Phrase("(ADVP (RB thoroughly))", "gründlich"),
    Phrase("(ADVP (RB electronically))", "elektronisch"),
    Phrase("(ADVP (RB personally))", "persönlich"),
)
DEGREES: tuple[Phrase, ...] = (
    Phrase("(RB very)", "sehr"),
    Phrase("(RB particularly)", "besonders"),
    Phrase("(RB sufficiently)", "ausreichend"),
)

THAT, WHETHER = adverbials.THAT, adverbials.WHETHER
IF, BECAUSE, ALTHOUGH = adverbials.IF, adverbials.BECAUSE, adverbials.ALTHOUGH
PROVIDED = Phrase("(CONJP (VBN provided) (IN that))", "sofern")
AS_SOON_AS = Phrase("(CONJP (RB as) (RB soon) (IN as))", "sobald")
# What opens a content clause with "that".
STATED: tuple[Phrase, ...] = (
    Phrase("(S (INTJ (UH please)) (VP (VB note)))", "bitte beachten Sie", "0-0 1-1"),
    Phrase(
        "(S (NP (PRP we)) (VP (VBP regret) (TO to) (VB inform) (NP (PRP you))))",
        "wir bedauern , Ihnen mitteilen zu müssen",
        "0-0 1-1 2-5 3-4 4-3",
    ),
    Phrase(
        "(S (NP (PRP we)) (VP (VBP are) (JJ pleased) (TO to) (VB inform) "
        "(NP (PRP you))))",
        "wir freuen uns , Ihnen mitteilen zu können",
        "0-0 1-1 2-1 2-2 3-6 4-5 5-4",
    ),
    Phrase(
        "(S (NP (PRP we)) (VP (MD would) (VB like) (TO to) (VB point) (RP out)))",
        "wir möchten darauf hinweisen",
        "0-0 1-1 2-1 4-3 5-3",
    ),
    Phrase(
        "(S (NP (PRP we)) (VP (ADVP (RB hereby)) (VB confirm)))",
        "hiermit bestätigen wir",
        "0-2 1-0 2-1",
    ),
    Phrase(
        "(S (NP (PRP I)) (VP (VBP am) (VBG assuming)))",
        "ich gehe davon aus",
        "0-0 1-1 2-1 2-2 2-3",
    ),
)
# What opens an indirect question with "whether".
ASKED: tuple[Phrase, ...] = (
    Phrase(
        "(S (INTJ (UH please)) (VP (VB let) (NP (PRP us)) (VB know)))",
        "bitte teilen Sie uns mit",
        "0-0 1-1 2-3 3-1 3-4",
    ),
    Phrase("(S (INTJ (UH please)) (VP (VB check)))", "bitte prüfen Sie", "0-0 1-1"),
    Phrase(
        "(S (NP (PRP we)) (VP (MD would) (VB like) (TO to) (VB know)))",
        "wir möchten wissen",
        "0-0 1-1 2-1 4-2",
    ),
)
WHY, WHEN_ASKED = adverbials.WHY, adverbials.WHEN_ASKED
