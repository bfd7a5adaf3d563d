"""Statements: English and German written by hand for given derivations."""

from grammar_ende.derivation import (
    Ago,
    Clause,
    ClockTime,
    NounPhrase,
    Oblique,
    Pair,
    Quality,
    RelativeClause,
    Role,
    Statement,
)
from grammar_ende.lexicon import adverbials, modifiers

from tests.data import words

STATEMENTS = (
    (words.READS_BOOK, "The woman reads the book.", "Die Frau liest das Buch."),
    (
        Clause(
            words.ANNA,
            words.BUY,
            words.PAST,
            direct=words.a("apple"),
            time=words.time("gestern"),
        ),
        "Anna bought an apple yesterday.",
        "Anna kaufte gestern einen Apfel.",
    ),
    (
        Clause(
            words.ANNA,
            words.BUY,
            words.PERFECT,
            direct=words.the("apple"),
            time=words.TODAY,
        ),
        "Anna has bought the apple today.",
        "Anna hat den Apfel heute gekauft.",
    ),
    (
        Clause(words.HE, words.GET_UP, words.PRESENT, time=ClockTime(1)),
        "He gets up at one o'clock.",
        "Er steht um ein Uhr auf.",
    ),
    (
        Clause(
            words.HE, words.GET_UP, words.PERFECT, adverb=adverbials.PERFECT_ADVERBS[0]
        ),
        "He has already gotten up.",
        "Er ist schon aufgestanden.",
    ),
    (
        Clause(
            words.THEY,
            words.PICK_UP,
            words.PAST,
            direct=words.HE,
            time=Ago(3, "days", "Tagen"),
        ),
        "They picked him up three days ago.",
        "Sie holten ihn vor drei Tagen ab.",
    ),
    (
        Clause(words.ME, words.SEEK, words.PRESENT, direct=words.the("boy")),
        "I look for the boy.",
        "Ich suche den Jungen.",
    ),
    (
        Clause(
            words.ANNA,
            words.CALL,
            words.FUTURE,
            direct=words.the("brother"),
            is_negated=True,
        ),
        "Anna will not call the brother.",
        "Anna wird den Bruder nicht anrufen.",
    ),
    (
        Clause(
            words.HE,
            words.BUY,
            words.PRESENT,
            direct=NounPhrase(
                modifiers.NOT_A, words.noun_entry("car"), adjective=words.OLD
            ),
            is_negated=True,
        ),
        "He does not buy an old car.",
        "Er kauft kein altes Auto.",
    ),
    (
        Clause(
            words.HE,
            words.SLEEP,
            words.PRESENT,
            modal=modifiers.MUST_NOT,
            is_negated=True,
        ),
        "He must not sleep.",
        "Er darf nicht schlafen.",
    ),
    (
        Clause(
            words.HE,
            words.SLEEP,
            words.PRESENT,
            modal=modifiers.HAVE_TO,
            is_negated=True,
        ),
        "He does not have to sleep.",
        "Er muss nicht schlafen.",
    ),
    (
        Clause(
            words.HE, words.SLEEP, words.PRESENT, modal=modifiers.CAN, is_negated=True
        ),
        "He cannot sleep.",
        "Er kann nicht schlafen.",
    ),
    (
        Clause(
            words.ME,
            words.READ,
            words.PRESENT,
            likes=True,
            direct=NounPhrase(modifiers.BARE, words.noun_entry("book"), True),
        ),
        "I like to read books.",
        "Ich lese gern Bücher.",
    ),
    (
        Clause(
            words.ANNA,
            words.GIVE,
            words.PAST,
            direct=words.a("book"),
            recipient=words.the("child"),
            place=words.IN_GARDEN,
        ),
        "Anna gave the child a book in the garden.",
        "Anna gab dem Kind im Garten ein Buch.",
    ),
    (
        Clause(
            words.ANNA,
            words.EXPLAIN,
            words.PRESENT,
            direct=words.the("rule"),
            recipient=words.SHE,
        ),
        "Anna explains the rule to her.",
        "Anna erklärt ihr die Regel.",
    ),
    (
        Clause(
            words.HE,
            words.GO,
            words.PERFECT,
            oblique=Oblique(modifiers.TO, words.the("school")),
            time=words.TODAY,
        ),
        "He has gone to the school today.",
        "Er ist heute zur Schule gegangen.",
    ),
    (
        Clause(
            words.the("brother"),
            words.SEE,
            words.PRESENT,
            direct=words.ME,
            time=words.TODAY,
            fronts_time=True,
        ),
        "Today the brother sees me.",
        "Heute sieht mich der Bruder.",
    ),
    (
        Clause(
            Pair(words.ANNA, words.the("man")),
            words.BE,
            words.PAST,
            quality=Quality(words.OLD, standard=words.the("queen")),
        ),
        "Anna and the man were older than the queen.",
        "Anna und der Mann waren älter als die Königin.",
    ),
    (
        Clause(
            words.SHE, words.BE, words.PRESENT, quality=Quality(words.OLD, years=21)
        ),
        "She is twenty-one years old.",
        "Sie ist einundzwanzig Jahre alt.",
    ),
    (
        Clause(
            words.ANNA,
            words.KNOW,
            words.PRESENT,
            content=(
                adverbials.THAT,
                Clause(words.HE, words.CALL, words.PERFECT, direct=words.ME),
            ),
        ),
        "Anna knows that he has called me.",
        "Anna weiß, dass er mich angerufen hat.",
    ),
    (
        Clause(
            words.HE,
            words.TRY,
            words.PERFECT,
            infinitive=Clause(
                words.HE, words.PICK_UP, words.PRESENT, direct=words.the("car")
            ),
        ),
        "He has tried to pick up the car.",
        "Er hat versucht, das Auto abzuholen.",
    ),
    (
        Clause(
            words.the(
                "man",
                relative=RelativeClause(
                    Role.SUBJECT, Clause(words.the("man"), words.GET_UP, words.PAST)
                ),
            ),
            words.SLEEP,
            words.PRESENT,
        ),
        "The man who got up sleeps.",
        "Der Mann, der aufstand, schläft.",
    ),
    (
        Clause(
            words.HE,
            words.BUY,
            words.PERFECT,
            direct=words.the(
                "book",
                relative=RelativeClause(
                    Role.DIRECT, Clause(words.ANNA, words.READ, words.PRESENT)
                ),
            ),
        ),
        "He has bought the book that Anna reads.",
        "Er hat das Buch gekauft, das Anna liest.",
    ),
    (
        Clause(
            words.ME,
            words.SEE,
            words.PRESENT,
            direct=words.the(
                "woman",
                relative=RelativeClause(
                    Role.OBLIQUE, Clause(words.HE, words.SPEAK, words.PRESENT)
                ),
            ),
        ),
        "I see the woman with whom he speaks.",
        "Ich sehe die Frau, mit der er spricht.",
    ),
    (
        Clause(
            NounPhrase(
                modifiers.THE,
                words.noun_entry("clock"),
                compound=("station", "Bahnhofs"),
            ),
            words.BE,
            words.PRESENT,
            quality=Quality(words.OLD),
        ),
        "The station clock is old.",
        "Die Bahnhofsuhr ist alt.",
    ),
    (
        Clause(
            words.ANNA,
            words.SEE,
            words.PRESENT,
            direct=words.the(
                "car",
                possessor=NounPhrase(
                    modifiers.POSSESSIVES[0], words.noun_entry("brother")
                ),
            ),
        ),
        "Anna sees my brother's car.",
        "Anna sieht das Auto meines Bruders.",
    ),
    (
        Clause(
            words.ME,
            words.SEE,
            words.PRESENT,
            direct=NounPhrase(
                modifiers.THE,
                words.noun_entry("house"),
                adjective=words.OLD,
                possessor=words.ANNA,
            ),
        ),
        "I see Anna's old house.",
        "Ich sehe Annas altes Haus.",
    ),
    (
        Clause(
            words.ANNA,
            words.READ,
            words.PERFECT,
            direct=words.the("book"),
            is_negated=True,
            time=words.TODAY,
        ),
        "Anna has not read the book today.",
        "Anna hat das Buch heute nicht gelesen.",
    ),
    (
        Clause(
            words.HE,
            words.GO,
            words.PRESENT,
            oblique=Oblique(modifiers.TO, words.the("school")),
            is_negated=True,
        ),
        "He does not go to the school.",
        "Er geht nicht zur Schule.",
    ),
    (
        Clause(words.ME, words.READ, words.PRESENT, likes=True, is_negated=True),
        "I do not like to read.",
        "Ich lese nicht gern.",
    ),
    (
        Clause(
            words.SHE,
            words.BE,
            words.PAST,
            quality=Quality(words.OLD),
            is_negated=True,
        ),
        "She was not old.",
        "Sie war nicht alt.",
    ),
)


def test_statements():
    for clause, english, german in STATEMENTS:
        assert words.spoken(Statement(clause)) == (english, german), english
