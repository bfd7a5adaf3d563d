"""German clauses and sentences: position of the verb and order of the rest.

One order of the middle field, so that an English sentence has one translation:

    object pronouns, subject, "bitte", dative, definite accusative, time, frequency,
    cause, "nicht", "gern", manner, company, place, indefinite accusative, what belongs
    to the verb

A subject that is a pronoun itself comes before the other pronouns.

Relative clauses of an object, content clauses and infinitives follow the last verb.
"""

from typing import NamedTuple

from grammar_ende.derivation import (
    Announcement,
    Clause,
    Coordination,
    Existence,
    Nominal,
    NounPhrase,
    RelativeClause,
    Request,
    Role,
    Sentence,
    Statement,
    Tense,
    WhQuestion,
    YesNoQuestion,
    is_definite,
    is_plural,
    person,
)
from grammar_ende.german_inflection import (
    past,
    present,
    relative_pronoun,
    zu_infinitive,
)
from grammar_ende.german_phrases import (
    governed_case,
    nominal_words,
    oblique_words,
    quality_words,
    time_words,
)
from grammar_ende.lexicon.entries import Case, Phrase, Pronoun, Verb
from grammar_ende.lexicon.modifiers import Modal
from grammar_ende.lexicon.verbs import EXISTENCE
from grammar_ende.origins import merged, phrase_words, within

_PLEASE = (*within("please", ["bitte"]),)


class Verbs(NamedTuple):
    """The finite verb, its prefix if that separates, and the verbs at the end."""

    finite: str
    prefix: str
    last: list[str]

    def right_bracket(self) -> list[str]:
        """Returns the verbs and the prefix at the end of a main clause."""
        return [self.prefix] if self.prefix else self.last

    def clause_final(self) -> list[str]:
        """Returns the verbs of a subordinate clause, the finite one last."""
        parts = [self.prefix, self.finite] if self.prefix else [self.finite]
        return [*self.last, merged("".join(parts), parts)]


def sentence_words(sentence: Sentence) -> list[str]:
    """Returns the words and punctuation marks of a whole sentence."""
    if isinstance(sentence, Statement):
        return [*_verb_second(sentence.clause), "."]
    if isinstance(sentence, YesNoQuestion):
        return [*_verb_first(sentence.clause), "?"]
    if isinstance(sentence, WhQuestion):
        return [*_wh_question(sentence), "?"]
    if isinstance(sentence, Existence):
        return _existence(sentence)
    if isinstance(sentence, Request):
        return [*_PLEASE, *_verb_first(sentence.clause), "."]
    if isinstance(sentence, Announcement):
        content = _bar(sentence.conjunction, sentence.clause)
        return [*within("opening", phrase_words(sentence.opening)), *content, "."]
    if isinstance(sentence, Coordination):
        joint = phrase_words(sentence.conjunction)
        first = within("first", _verb_second(sentence.first))
        second = within("second", _verb_second(sentence.second))
        return [*first, *([","] if joint == ["aber"] else []), *joint, *second, "."]
    subordinate = _bar(sentence.conjunction, sentence.subordinate)
    if sentence.is_fronted:
        return [*subordinate[1:], *within("main", _verb_first(sentence.main)), "."]
    return [*within("main", _verb_second(sentence.main)), *subordinate, "."]


def _verb_second(clause: Clause) -> list[str]:
    if clause.fronts_time and clause.time is not None:
        return [*within("time", time_words(clause.time)), *_verb_first(clause)]
    return [*_subject(clause), *_after_prefield(clause)]


def _verb_first(clause: Clause) -> list[str]:
    verbs = _verbs(clause)
    end = [*verbs.right_bracket(), *_after_verbs(clause)]
    return [verbs.finite, *_subject_and_middle(clause), *end]


def _after_prefield(clause: Clause) -> list[str]:
    verbs = _verbs(clause)
    end = [*verbs.right_bracket(), *_after_verbs(clause)]
    return [verbs.finite, *_pronouns(clause), *_middle(clause), *end]


def _verb_end(clause: Clause) -> list[str]:
    return [*_verbs(clause).clause_final(), *_after_verbs(clause)]


def _bar(conjunction: Phrase, clause: Clause) -> list[str]:
    """Returns a subordinate clause between its commas."""
    words = within("clause", [*_subject_and_middle(clause), *_verb_end(clause)])
    return [",", *within("conjunction", phrase_words(conjunction)), *words, ","]


def _subject(clause: Clause) -> list[str]:
    words = nominal_words(clause.subject, Case.NOMINATIVE)
    return within("subject", [*words, *_relative_of(clause.subject)])


def _subject_and_middle(clause: Clause) -> list[str]:
    """Returns what follows the verb or the conjunction: `mich der Mann`, `er mich`."""
    pronouns = _pronouns(clause)
    if isinstance(clause.subject, Pronoun):
        return [*_subject(clause), *pronouns, *_middle(clause)]
    return [*pronouns, *_subject(clause), *_middle(clause)]


def _pronouns(clause: Clause) -> list[str]:
    """Returns the objects that are pronouns."""
    words: list[str] = []
    if isinstance(clause.direct, Pronoun):
        words += within("direct", nominal_words(clause.direct, Case.ACCUSATIVE))
    if isinstance(clause.recipient, Pronoun):
        words += within("recipient", nominal_words(clause.recipient, Case.DATIVE))
    return words


def _middle(clause: Clause) -> list[str]:
    """Returns everything between the verbs but the subject and the pronouns."""
    direct, recipient = clause.direct, clause.recipient
    comes_early = direct is None or is_definite(direct)
    words = [*_PLEASE] if clause.asks_politely else []
    if recipient is not None and not isinstance(recipient, Pronoun):
        words += within("recipient", nominal_words(recipient, Case.DATIVE))
    accusative: list[str] = []
    if direct is not None and not isinstance(direct, Pronoun):
        accusative = within("direct", nominal_words(direct, Case.ACCUSATIVE))
    if clause.is_negated and not comes_early:
        # "kein" expresses "not" too.
        first, *rest = accusative
        negation = within("negation", [str(first)])
        accusative = [merged(first, [first, *negation]), *rest]
    if comes_early:
        words += accusative
    words += _adverbials(clause, negates=comes_early)
    if not comes_early:
        words += accusative
    if clause.quality is not None:
        words += within("quality", quality_words(clause.quality))
    if clause.oblique is not None:
        words += within("oblique", oblique_words(clause.oblique))
    return words


def _adverbials(clause: Clause, negates: bool) -> list[str]:
    """Returns the free adverbials in their order; `kein` has already negated."""
    words: list[str] = []
    if clause.time is not None and not clause.fronts_time:
        words += within("time", time_words(clause.time))
    if clause.adverb is not None:
        words += within("adverb", phrase_words(clause.adverb))
    if clause.cause is not None:
        words += within("cause", oblique_words(clause.cause))
    if clause.is_negated and negates:
        words += within("negation", ["nicht"])
    if clause.likes:
        words += within("likes", ["gern"])
    if clause.manner is not None:
        words += within("manner", phrase_words(clause.manner))
    if clause.company is not None:
        words += within("company", oblique_words(clause.company))
    if clause.place is not None:
        words += within("place", oblique_words(clause.place))
    return words


def _after_verbs(clause: Clause) -> list[str]:
    words = within("direct", _relative_of(clause.direct))
    if clause.content is not None:
        words += within("content", _bar(*clause.content))
    if clause.infinitive is not None:
        inner = clause.infinitive
        *to, verb = zu_infinitive(inner.verb)
        verb = _lexical(inner.verb, verb)
        if to:
            verbs = [*within("to", to), verb]
        else:
            verbs = [merged(verb, [verb, *within("to", [str(verb)])])]
        words += [
            ",",
            *within("infinitive", [*_pronouns(inner), *_middle(inner), *verbs]),
        ]
        words.append(",")
    return words


def _relative_of(nominal: Nominal | None) -> list[str]:
    if isinstance(nominal, NounPhrase) and nominal.relative is not None:
        return within("relative", _relative_clause(nominal, nominal.relative))
    return []


def _relative_clause(antecedent: NounPhrase, relative: RelativeClause) -> list[str]:
    clause, noun = relative.clause, antecedent.noun
    opening: list[str] = []
    middle = _subject_and_middle(clause)
    if relative.role is Role.SUBJECT:
        case, middle = Case.NOMINATIVE, [*_pronouns(clause), *_middle(clause)]
    elif relative.role is Role.DIRECT:
        case = Case.ACCUSATIVE
    elif relative.role is Role.RECIPIENT:
        case = Case.DATIVE
    else:
        case = governed_case(clause.verb.preposition)
        if clause.verb.preposition:
            opening = within("preposition", clause.verb.preposition.de.split())
    pronoun = relative_pronoun(case, noun.gender, antecedent.is_plural)
    opening += within("pronoun", [pronoun])
    return [",", *opening, *middle, *_verb_end(clause), ","]


def _wh_question(sentence: WhQuestion) -> list[str]:
    clause, asked = sentence.clause, sentence.asked
    if sentence.role is Role.SUBJECT or asked is None:
        return [*_subject(clause), *_after_prefield(clause)]
    if isinstance(asked, NounPhrase):
        front = nominal_words(asked, Case.ACCUSATIVE)
    else:
        front = phrase_words(asked)
    return [*within("asked", front), *_verb_first(clause)]


def _existence(sentence: Existence) -> list[str]:
    conjugate = past if sentence.tense is Tense.PAST else present
    finite = conjugate(EXISTENCE, 3, False)
    verb, there = within("verb", [finite]), within("there", ["es"])
    nominal = within("nominal", nominal_words(sentence.nominal, Case.ACCUSATIVE))
    rest = [*nominal, *within("place", oblique_words(sentence.place))]
    if sentence.is_question:
        return [*verb, *there, *rest, "?"]
    return [*there, *verb, *rest, "."]


def _verbs(clause: Clause) -> Verbs:
    verb, tense = clause.verb, clause.tense
    number = person(clause.subject), is_plural(clause.subject)
    participle = _lexical(verb, verb.de_participle)
    infinitives = [_lexical(verb, verb.de_prefix + verb.de)]
    if clause.is_passive:
        infinitives = [participle, *within("passive", ["werden"])]
    if clause.modal is not None:
        [modal] = within("modal", [_modal(clause.modal, *number)])
        return Verbs(modal, "", infinitives)
    if tense is Tense.FUTURE:
        return Verbs(_auxiliary("werden", *number), "", infinitives)
    if clause.is_passive:
        return _passive(participle, tense, *number)
    if tense is Tense.PERFECT:
        return Verbs(_auxiliary(verb.de_auxiliary, *number), "", [participle])
    conjugate = past if tense is Tense.PAST else present
    [finite] = within("verb", [conjugate(verb, *number)])
    prefix = within(_prefix_part(verb), [verb.de_prefix])
    return Verbs(finite, prefix[0] if verb.de_prefix else "", [])


def _lexical(verb: Verb, form: str) -> str:
    """Returns a form of the verb that includes its prefix."""
    parts = within("verb", [form])
    if verb.de_prefix:
        parts += within(_prefix_part(verb), [verb.de_prefix])
    return merged(form, parts)


def _prefix_part(verb: Verb) -> str:
    """Returns what a prefix expresses: `ab` is the "up" of "picks up"."""
    return "particle" if verb.en_particle else "verb"


def _passive(participle: str, tense: Tense, subject_person: int, plural: bool) -> Verbs:
    """Returns `wird bezahlt`, `wurde bezahlt` or `ist bezahlt worden`."""
    if tense is Tense.PERFECT:
        finite = _auxiliary("sein", subject_person, plural)
        return Verbs(finite, "", [participle, *within("passive", ["worden"])])
    if tense is Tense.PRESENT:
        finite = _auxiliary_form("werden", subject_person, plural)
    else:
        finite = (
            "wurden" if plural else ("wurde", "wurdest", "wurde")[subject_person - 1]
        )
    return Verbs(*within("passive", [finite]), "", [participle])


def _modal(modal: Modal, subject_person: int, plural: bool) -> str:
    if plural:
        return modal.de_plural
    return modal.de_second if subject_person == 2 else modal.de


def _auxiliary(infinitive: str, subject_person: int, plural: bool) -> str:
    [auxiliary] = within(
        "auxiliary", [_auxiliary_form(infinitive, subject_person, plural)]
    )
    return auxiliary


def _auxiliary_form(infinitive: str, subject_person: int, plural: bool) -> str:
    if plural:
        return {"sein": "sind"}.get(infinitive, infinitive)
    singular = {
        "haben": ("habe", "hast", "hat"),
        "sein": ("bin", "bist", "ist"),
        "werden": ("werde", "wirst", "wird"),
    }
    return singular[infinitive][subject_person - 1]
