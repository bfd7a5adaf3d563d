"""Whole sentences: English and German written by hand for given derivations."""

import random

import pytest
from grammar_ende.derivation import (
    Ago,
    Clause,
    ClockTime,
    Coordination,
    Existence,
    Name,
    NounPhrase,
    Oblique,
    Pair,
    Quality,
    RelativeClause,
    Role,
    Statement,
    Subordination,
    Tense,
    WhQuestion,
    YesNoQuestion,
)
from grammar_ende.english_clauses import sentence_tree
from grammar_ende.german_clauses import sentence_words
from grammar_ende.german_phrases import governed_case
from grammar_ende.lexicon import adverbials, modifiers, verbs
from grammar_ende.lexicon.entries import Noun, Phrase, Preposition, Verb
from grammar_ende.lexicon.nouns import NOUNS
from grammar_ende.lexicon.tables import table_rows
from grammar_ende.sample_clauses import INTRANSITIVE, Wish, draw_clause
from grammar_ende.spelling import written_english, written_german
from grammar_ende.trees import read_tree

PRESENT, PAST = Tense.PRESENT, Tense.PAST
PERFECT, FUTURE = Tense.PERFECT, Tense.FUTURE
ANNA = Name("Anna", "Anna", modifiers.SHE)
HE, SHE, I, YOU, THEY = (
    modifiers.HE,
    modifiers.SHE,
    modifiers.I_PRONOUN,
    modifiers.YOU,
    modifiers.THEY,
)


def _noun(en: str) -> Noun:
    return next(noun for noun in NOUNS if noun.en == en)


def _the(en: str, **more) -> NounPhrase:
    return NounPhrase(modifiers.THE, _noun(en), **more)


def _a(en: str) -> NounPhrase:
    return NounPhrase(modifiers.A, _noun(en))


def _verb(table: tuple[Verb, ...], de: str) -> Verb:
    return next(verb for verb in table if verb.de_prefix + verb.de == de)


def _adjective(en: str):
    return next(each for each in modifiers.ADJECTIVES if each.en == en)


def _time(de: str) -> Phrase:
    known = (
        *adverbials.PRESENT_TIMES,
        *adverbials.PAST_TIMES,
        *adverbials.FUTURE_TIMES,
    )
    return next(phrase for phrase in known if phrase.de == de)


SLEEP = _verb(verbs.INTRANSITIVE, "schlafen")
GET_UP = _verb(verbs.INTRANSITIVE, "aufstehen")
READ = _verb(verbs.TRANSITIVE, "lesen")
BUY = _verb(verbs.TRANSITIVE, "kaufen")
SEE = _verb(verbs.TRANSITIVE, "sehen")
CALL = _verb(verbs.TRANSITIVE, "anrufen")
PICK_UP = _verb(verbs.TRANSITIVE, "abholen")
SEEK = _verb(verbs.TRANSITIVE, "suchen")
HELP = _verb(verbs.DATIVE, "helfen")
GIVE = _verb(verbs.DITRANSITIVE, "geben")
EXPLAIN = _verb(verbs.DITRANSITIVE, "erklären")
SPEAK = next(verb for verb in verbs.PREPOSITIONAL if verb.en == "speak")
GO = _verb(verbs.MOTION, "gehen")
KNOW = _verb(verbs.CLAUSAL, "wissen")
TRY = _verb(verbs.INFINITIVAL, "versuchen")
BE = verbs.COPULAS[0]
IN_GARDEN = Oblique(modifiers.IN, _the("garden"))
WITH_MAN = Oblique(Preposition("with", "mit", SPEAK.preposition.case), _the("man"))
OLD = _adjective("old")
READS_BOOK = Clause(_the("woman"), READ, PRESENT, direct=_the("book"))
TODAY = _time("heute")
SLEEPS = Clause(_the("dog"), SLEEP, PRESENT)

STATEMENTS = [
    (READS_BOOK, "The woman reads the book.", "Die Frau liest das Buch."),
    (
        Clause(ANNA, BUY, PAST, direct=_a("apple"), time=_time("gestern")),
        "Anna bought an apple yesterday.",
        "Anna kaufte gestern einen Apfel.",
    ),
    (
        Clause(ANNA, BUY, PERFECT, direct=_the("apple"), time=TODAY),
        "Anna has bought the apple today.",
        "Anna hat den Apfel heute gekauft.",
    ),
    (
        Clause(HE, GET_UP, PRESENT, time=ClockTime(1)),
        "He gets up at one o'clock.",
        "Er steht um ein Uhr auf.",
    ),
    (
        Clause(HE, GET_UP, PERFECT, adverb=adverbials.PERFECT_ADVERBS[0]),
        "He has already gotten up.",
        "Er ist schon aufgestanden.",
    ),
    (
        Clause(THEY, PICK_UP, PAST, direct=HE, time=Ago(3, "days", "Tagen")),
        "They picked him up three days ago.",
        "Sie holten ihn vor drei Tagen ab.",
    ),
    (
        Clause(I, SEEK, PRESENT, direct=_the("boy")),
        "I look for the boy.",
        "Ich suche den Jungen.",
    ),
    (
        Clause(ANNA, CALL, FUTURE, direct=_the("brother"), is_negated=True),
        "Anna will not call the brother.",
        "Anna wird den Bruder nicht anrufen.",
    ),
    (
        Clause(
            HE,
            BUY,
            PRESENT,
            direct=NounPhrase(modifiers.NOT_A, _noun("car"), adjective=OLD),
            is_negated=True,
        ),
        "He does not buy an old car.",
        "Er kauft kein altes Auto.",
    ),
    (
        Clause(HE, SLEEP, PRESENT, modal=modifiers.MUST_NOT, is_negated=True),
        "He must not sleep.",
        "Er darf nicht schlafen.",
    ),
    (
        Clause(HE, SLEEP, PRESENT, modal=modifiers.HAVE_TO, is_negated=True),
        "He does not have to sleep.",
        "Er muss nicht schlafen.",
    ),
    (
        Clause(HE, SLEEP, PRESENT, modal=modifiers.CAN, is_negated=True),
        "He cannot sleep.",
        "Er kann nicht schlafen.",
    ),
    (
        Clause(
            I,
            READ,
            PRESENT,
            likes=True,
            direct=NounPhrase(modifiers.BARE, _noun("book"), True),
        ),
        "I like to read books.",
        "Ich lese gern Bücher.",
    ),
    (
        Clause(
            ANNA,
            GIVE,
            PAST,
            direct=_a("book"),
            recipient=_the("child"),
            place=IN_GARDEN,
        ),
        "Anna gave the child a book in the garden.",
        "Anna gab dem Kind im Garten ein Buch.",
    ),
    (
        Clause(ANNA, EXPLAIN, PRESENT, direct=_the("rule"), recipient=SHE),
        "Anna explains the rule to her.",
        "Anna erklärt ihr die Regel.",
    ),
    (
        Clause(
            HE, GO, PERFECT, oblique=Oblique(modifiers.TO, _the("school")), time=TODAY
        ),
        "He has gone to the school today.",
        "Er ist heute zur Schule gegangen.",
    ),
    (
        Clause(_the("brother"), SEE, PRESENT, direct=I, time=TODAY, fronts_time=True),
        "Today the brother sees me.",
        "Heute sieht mich der Bruder.",
    ),
    (
        Clause(
            Pair(ANNA, _the("man")),
            BE,
            PAST,
            quality=Quality(OLD, standard=_the("queen")),
        ),
        "Anna and the man were older than the queen.",
        "Anna und der Mann waren älter als die Königin.",
    ),
    (
        Clause(SHE, BE, PRESENT, quality=Quality(OLD, years=21)),
        "She is twenty-one years old.",
        "Sie ist einundzwanzig Jahre alt.",
    ),
    (
        Clause(
            ANNA,
            KNOW,
            PRESENT,
            content=(adverbials.THAT, Clause(HE, CALL, PERFECT, direct=I)),
        ),
        "Anna knows that he has called me.",
        "Anna weiß, dass er mich angerufen hat.",
    ),
    (
        Clause(
            HE,
            TRY,
            PERFECT,
            infinitive=Clause(HE, PICK_UP, PRESENT, direct=_the("car")),
        ),
        "He has tried to pick up the car.",
        "Er hat versucht, das Auto abzuholen.",
    ),
    (
        Clause(
            _the(
                "man",
                relative=RelativeClause(
                    Role.SUBJECT, Clause(_the("man"), GET_UP, PAST)
                ),
            ),
            SLEEP,
            PRESENT,
        ),
        "The man who got up sleeps.",
        "Der Mann, der aufstand, schläft.",
    ),
    (
        Clause(
            HE,
            BUY,
            PERFECT,
            direct=_the(
                "book",
                relative=RelativeClause(Role.DIRECT, Clause(ANNA, READ, PRESENT)),
            ),
        ),
        "He has bought the book that Anna reads.",
        "Er hat das Buch gekauft, das Anna liest.",
    ),
    (
        Clause(
            I,
            SEE,
            PRESENT,
            direct=_the(
                "woman",
                relative=RelativeClause(Role.OBLIQUE, Clause(HE, SPEAK, PRESENT)),
            ),
        ),
        "I see the woman with whom he speaks.",
        "Ich sehe die Frau, mit der er spricht.",
    ),
    (
        Clause(
            NounPhrase(modifiers.THE, _noun("clock"), compound=("station", "Bahnhofs")),
            BE,
            PRESENT,
            quality=Quality(OLD),
        ),
        "The station clock is old.",
        "Die Bahnhofsuhr ist alt.",
    ),
    (
        Clause(
            ANNA,
            SEE,
            PRESENT,
            direct=_the(
                "car", possessor=NounPhrase(modifiers.POSSESSIVES[0], _noun("brother"))
            ),
        ),
        "Anna sees my brother's car.",
        "Anna sieht das Auto meines Bruders.",
    ),
    (
        Clause(
            I,
            SEE,
            PRESENT,
            direct=NounPhrase(
                modifiers.THE, _noun("house"), adjective=OLD, possessor=ANNA
            ),
        ),
        "I see Anna's old house.",
        "Ich sehe Annas altes Haus.",
    ),
]
OTHERS = [
    (
        YesNoQuestion(READS_BOOK),
        "Does the woman read the book?",
        "Liest die Frau das Buch?",
    ),
    (
        YesNoQuestion(Clause(YOU, CALL, PERFECT, direct=HE)),
        "Have you called him?",
        "Hast du ihn angerufen?",
    ),
    (
        WhQuestion(Clause(modifiers.WHO, GET_UP, PRESENT), Role.SUBJECT, None),
        "Who gets up?",
        "Wer steht auf?",
    ),
    (
        WhQuestion(Clause(HE, HELP, PRESENT), Role.RECIPIENT, adverbials.WHOM_DATIVE),
        "Whom does he help?",
        "Wem hilft er?",
    ),
    (
        WhQuestion(
            Clause(HE, BUY, FUTURE),
            Role.DIRECT,
            NounPhrase(modifiers.HOW_MANY, _noun("apple"), True),
        ),
        "How many apples will he buy?",
        "Wie viele Äpfel wird er kaufen?",
    ),
    (
        WhQuestion(Clause(YOU, GO, PRESENT), Role.OBLIQUE, adverbials.WHERE_TO),
        "Where do you go?",
        "Wohin gehst du?",
    ),
    (
        Subordination(SLEEPS, adverbials.BECAUSE, Clause(I, GET_UP, PRESENT), False),
        "The dog sleeps because I get up.",
        "Der Hund schläft, weil ich aufstehe.",
    ),
    (
        Subordination(
            SLEEPS,
            adverbials.IF,
            Clause(ANNA, READ, PRESENT, modal=modifiers.CAN),
            True,
        ),
        "If Anna can read, the dog sleeps.",
        "Wenn Anna lesen kann, schläft der Hund.",
    ),
    (
        Coordination(SLEEPS, adverbials.BUT, READS_BOOK),
        "The dog sleeps, but the woman reads the book.",
        "Der Hund schläft, aber die Frau liest das Buch.",
    ),
    (
        Coordination(SLEEPS, adverbials.AND, READS_BOOK),
        "The dog sleeps and the woman reads the book.",
        "Der Hund schläft und die Frau liest das Buch.",
    ),
    (
        Existence(_a("bear"), IN_GARDEN, PAST),
        "There was a bear in the garden.",
        "Es gab einen Bären im Garten.",
    ),
]


def _spoken(sentence) -> tuple[str, str]:
    tokens = [leaf.word for leaf in sentence_tree(sentence).leaves()]
    return written_english(tokens), written_german(sentence_words(sentence))


@pytest.mark.parametrize(("clause", "english", "german"), STATEMENTS)
def test_statements(clause, english, german):
    assert _spoken(Statement(clause)) == (english, german)


@pytest.mark.parametrize(("sentence", "english", "german"), OTHERS)
def test_questions_and_compound_sentences(sentence, english, german):
    assert _spoken(sentence) == (english, german)


@pytest.mark.parametrize(
    ("sentence", "tree"),
    [
        (
            Statement(SLEEPS),
            "(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))",
        ),
        (
            Statement(Clause(HE, SLEEP, PAST, is_negated=True)),
            "(S (NP (PRP He)) (VP (VBD did) (RB not) (VP (VB sleep))) (. .))",
        ),
        (
            YesNoQuestion(Clause(THEY, SEE, PERFECT, direct=ANNA)),
            "(SQ (VBP Have) (NP (PRP they)) (VP (VBN seen) (NP (NNP Anna))) (. ?))",
        ),
        (
            WhQuestion(Clause(HE, SLEEP, PRESENT), Role.CAUSE, adverbials.WHY),
            "(SBARQ (WHADVP (WRB Why)) (SQ (VBZ does) (NP (PRP he)) (VP (VB sleep))) "
            "(. ?))",
        ),
        (
            Statement(Clause(HE, CALL, PRESENT, modal=modifiers.WANT, direct=I)),
            "(S (NP (PRP He)) (VP (VBZ wants) (S (VP (TO to) (VP (VB call) "
            "(NP (PRP me)))))) (. .))",
        ),
        (
            Statement(
                Clause(
                    ANNA,
                    KNOW,
                    PRESENT,
                    content=(adverbials.THAT, Clause(HE, GET_UP, PRESENT)),
                )
            ),
            "(S (NP (NNP Anna)) (VP (VBZ knows) (SBAR (IN that) (S (NP (PRP he)) "
            "(VP (VBZ gets) (PRT (RP up)))))) (. .))",
        ),
    ],
)
def test_trees(sentence, tree):
    assert str(sentence_tree(sentence)) == tree


def test_brackets_are_read_back():
    text = "(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))"
    tree = read_tree(text)
    assert str(tree) == text
    assert [leaf.word for leaf in tree.leaves()] == ["The", "dog", "sleeps", "."]


@pytest.mark.parametrize("brackets", ["(NP (NN dog)", "(NN dog))", "dog", ""])
def test_broken_brackets_are_refused(brackets):
    with pytest.raises(ValueError, match=r"brackets must hold exactly one tree\. Rec"):
        read_tree(brackets)


def test_a_wish_that_nothing_grants_is_refused():
    wish = Wish(subject=_the("city"))
    with pytest.raises(ValueError, match=r"wish must be one that some verb grants"):
        draw_clause(random.Random(1), (INTRANSITIVE,), wish)


def test_a_question_without_its_word_is_refused():
    with pytest.raises(ValueError, match=r"asked must be given for role Role\.DIRECT"):
        sentence_tree(WhQuestion(Clause(HE, SEE, PRESENT), Role.DIRECT, None))


def test_a_missing_section_of_a_table_is_named():
    with pytest.raises(
        ValueError, match=r"section must be one of verbs\.txt.*'adverb'"
    ):
        table_rows("verbs.txt", "adverb")


def test_a_verb_without_its_preposition_is_refused():
    with pytest.raises(ValueError, match=r"preposition must be given\. Received: None"):
        governed_case(None)
