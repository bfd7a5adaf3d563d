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
from grammar_ende.lexicon.entries import Case, Phrase, Pronoun
from grammar_ende.lexicon.modifiers import Modal
from grammar_ende.lexicon.verbs import EXISTENCE


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
        return [*self.last, self.prefix + self.finite]


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
        return ["bitte", *_verb_first(sentence.clause), "."]
    if isinstance(sentence, Announcement):
        content = _bar(sentence.conjunction, sentence.clause)
        return [*sentence.opening.de.split(), *content, "."]
    if isinstance(sentence, Coordination):
        joint = sentence.conjunction.de
        first, second = _verb_second(sentence.first), _verb_second(sentence.second)
        return [*first, *([","] if joint == "aber" else []), joint, *second, "."]
    subordinate = _bar(sentence.conjunction, sentence.subordinate)
    if sentence.is_fronted:
        return [*subordinate[1:], *_verb_first(sentence.main), "."]
    return [*_verb_second(sentence.main), *subordinate, "."]


def _verb_second(clause: Clause) -> list[str]:
    if clause.fronts_time and clause.time is not None:
        return [*time_words(clause.time), *_verb_first(clause)]
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
    middle = _subject_and_middle(clause)
    return [",", conjunction.de, *middle, *_verb_end(clause), ","]


def _subject(clause: Clause) -> list[str]:
    words = nominal_words(clause.subject, Case.NOMINATIVE)
    return [*words, *_relative_of(clause.subject)]


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
        words += nominal_words(clause.direct, Case.ACCUSATIVE)
    if isinstance(clause.recipient, Pronoun):
        words += nominal_words(clause.recipient, Case.DATIVE)
    return words


def _middle(clause: Clause) -> list[str]:
    """Returns everything between the verbs but the subject and the pronouns."""
    direct, recipient = clause.direct, clause.recipient
    comes_early = direct is None or is_definite(direct)
    words = ["bitte"] if clause.asks_politely else []
    if recipient is not None and not isinstance(recipient, Pronoun):
        words += nominal_words(recipient, Case.DATIVE)
    accusative: list[str] = []
    if direct is not None and not isinstance(direct, Pronoun):
        accusative = nominal_words(direct, Case.ACCUSATIVE)
    if comes_early:
        words += accusative
    words += _adverbials(clause, negates=comes_early)
    if not comes_early:
        words += accusative
    if clause.quality is not None:
        words += quality_words(clause.quality)
    if clause.oblique is not None:
        words += oblique_words(clause.oblique)
    return words


def _adverbials(clause: Clause, negates: bool) -> list[str]:
    """Returns the free adverbials in their order; `kein` has already negated."""
    words: list[str] = []
    if clause.time is not None and not clause.fronts_time:
        words += time_words(clause.time)
    if clause.adverb is not None:
        words += clause.adverb.de.split()
    if clause.cause is not None:
        words += oblique_words(clause.cause)
    if clause.is_negated and negates:
        words.append("nicht")
    if clause.likes:
        words.append("gern")
    if clause.manner is not None:
        words += clause.manner.de.split()
    for oblique in (clause.company, clause.place):
        if oblique is not None:
            words += oblique_words(oblique)
    return words


def _after_verbs(clause: Clause) -> list[str]:
    words = _relative_of(clause.direct)
    if clause.content is not None:
        words += _bar(*clause.content)
    if clause.infinitive is not None:
        inner = clause.infinitive
        middle = [*_pronouns(inner), *_middle(inner)]
        words += [",", *middle, *zu_infinitive(inner.verb), ","]
    return words


def _relative_of(nominal: Nominal | None) -> list[str]:
    if isinstance(nominal, NounPhrase) and nominal.relative is not None:
        return _relative_clause(nominal, nominal.relative)
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
        opening = [clause.verb.preposition.de] if clause.verb.preposition else []
    opening.append(relative_pronoun(case, noun.gender, antecedent.is_plural))
    return [",", *opening, *middle, *_verb_end(clause), ","]


def _wh_question(sentence: WhQuestion) -> list[str]:
    clause, asked = sentence.clause, sentence.asked
    if sentence.role is Role.SUBJECT or asked is None:
        return [*_subject(clause), *_after_prefield(clause)]
    if isinstance(asked, NounPhrase):
        front = nominal_words(asked, Case.ACCUSATIVE)
    else:
        front = asked.de.split()
    return [*front, *_verb_first(clause)]


def _existence(sentence: Existence) -> list[str]:
    conjugate = past if sentence.tense is Tense.PAST else present
    finite = conjugate(EXISTENCE, 3, False)
    nominal = nominal_words(sentence.nominal, Case.ACCUSATIVE)
    rest = [*nominal, *oblique_words(sentence.place)]
    if sentence.is_question:
        return [finite, "es", *rest, "?"]
    return ["es", finite, *rest, "."]


def _verbs(clause: Clause) -> Verbs:
    verb, tense = clause.verb, clause.tense
    number = person(clause.subject), is_plural(clause.subject)
    infinitives = [verb.de_prefix + verb.de]
    if clause.is_passive:
        infinitives = [verb.de_participle, "werden"]
    if clause.modal is not None:
        return Verbs(_modal(clause.modal, *number), "", infinitives)
    if tense is Tense.FUTURE:
        return Verbs(_auxiliary("werden", *number), "", infinitives)
    if clause.is_passive:
        return _passive(verb.de_participle, tense, *number)
    if tense is Tense.PERFECT:
        finite = _auxiliary(verb.de_auxiliary, *number)
        return Verbs(finite, "", [verb.de_participle])
    conjugate = past if tense is Tense.PAST else present
    return Verbs(conjugate(verb, *number), verb.de_prefix, [])


def _passive(participle: str, tense: Tense, subject_person: int, plural: bool) -> Verbs:
    """Returns `wird bezahlt`, `wurde bezahlt` or `ist bezahlt worden`."""
    if tense is Tense.PERFECT:
        finite = _auxiliary("sein", subject_person, plural)
        return Verbs(finite, "", [participle, "worden"])
    if tense is Tense.PRESENT:
        finite = _auxiliary("werden", subject_person, plural)
    else:
        finite = (
            "wurden" if plural else ("wurde", "wurdest", "wurde")[subject_person - 1]
        )
    return Verbs(finite, "", [participle])


def _modal(modal: Modal, subject_person: int, plural: bool) -> str:
    if plural:
        return modal.de_plural
    return modal.de_second if subject_person == 2 else modal.de


def _auxiliary(infinitive: str, subject_person: int, plural: bool) -> str:
    if plural:
        return {"sein": "sind"}.get(infinitive, infinitive)
    singular = {
        "haben": ("habe", "hast", "hat"),
        "sein": ("bin", "bist", "ist"),
        "werden": ("werde", "wirst", "wird"),
    }
    return singular[infinitive][subject_person - 1]
