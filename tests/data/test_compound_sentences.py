"""Questions and compound sentences, written by hand for given derivations."""

from grammar_ende.derivation import (
    Clause,
    Coordination,
    Existence,
    NounPhrase,
    Role,
    Subordination,
    WhQuestion,
    YesNoQuestion,
)
from grammar_ende.lexicon import adverbials, modifiers

from tests.data import words

OTHERS = (
    (
        YesNoQuestion(words.READS_BOOK),
        "Does the woman read the book?",
        "Liest die Frau das Buch?",
    ),
    (
        YesNoQuestion(Clause(words.YOU, words.CALL, words.PERFECT, direct=words.HE)),
        "Have you called him?",
        "Hast du ihn angerufen?",
    ),
    (
        WhQuestion(
            Clause(modifiers.WHO, words.GET_UP, words.PRESENT), Role.SUBJECT, None
        ),
        "Who gets up?",
        "Wer steht auf?",
    ),
    (
        WhQuestion(
            Clause(words.HE, words.HELP, words.PRESENT),
            Role.RECIPIENT,
            adverbials.WHOM_DATIVE,
        ),
        "Whom does he help?",
        "Wem hilft er?",
    ),
    (
        WhQuestion(
            Clause(words.HE, words.BUY, words.FUTURE),
            Role.DIRECT,
            NounPhrase(modifiers.HOW_MANY, words.noun_entry("apple"), True),
        ),
        "How many apples will he buy?",
        "Wie viele Äpfel wird er kaufen?",
    ),
    (
        WhQuestion(
            Clause(words.YOU, words.GO, words.PRESENT),
            Role.OBLIQUE,
            adverbials.WHERE_TO,
        ),
        "Where do you go?",
        "Wohin gehst du?",
    ),
    (
        Subordination(
            words.SLEEPS,
            adverbials.BECAUSE,
            Clause(words.ME, words.GET_UP, words.PRESENT),
            False,
        ),
        "The dog sleeps because I get up.",
        "Der Hund schläft, weil ich aufstehe.",
    ),
    (
        Subordination(
            words.SLEEPS,
            adverbials.IF,
            Clause(words.ANNA, words.READ, words.PRESENT, modal=modifiers.CAN),
            True,
        ),
        "If Anna can read, the dog sleeps.",
        "Wenn Anna lesen kann, schläft der Hund.",
    ),
    (
        Coordination(words.SLEEPS, adverbials.BUT, words.READS_BOOK),
        "The dog sleeps, but the woman reads the book.",
        "Der Hund schläft, aber die Frau liest das Buch.",
    ),
    (
        Coordination(words.SLEEPS, adverbials.AND, words.READS_BOOK),
        "The dog sleeps and the woman reads the book.",
        "Der Hund schläft und die Frau liest das Buch.",
    ),
    (
        Existence(words.a("bear"), words.IN_GARDEN, words.PAST),
        "There was a bear in the garden.",
        "Es gab einen Bären im Garten.",
    ),
)


def test_questions_and_compound_sentences():
    for sentence, english, german in OTHERS:
        assert words.spoken(sentence) == (english, german), english
