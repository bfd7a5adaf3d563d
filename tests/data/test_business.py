"""business_ende: German by hand, properties of every pair, distance to grammar_ende."""

import collections
import hashlib
import importlib
import itertools
import re

import pytest
import sacrebleu
from business_ende import lexicon
from business_ende.sample_sentences import draw_sentence
from grammar_ende.corpus import Splits, corpus_splits, drawn_pairs
from grammar_ende.derivation import (
    Announcement,
    Clause,
    NounPhrase,
    Oblique,
    Request,
    Statement,
    Subordination,
    Tense,
    YesNoQuestion,
)
from grammar_ende.german_phrases import nominal_words
from grammar_ende.lexicon import modifiers
from grammar_ende.lexicon.entries import Case

from tests.data import test_word_by_word, words
from tests.data.test_dataset_builders import SMALL, _prepared, _texts


def _the(en: str, determiner=modifiers.THE, **more) -> NounPhrase:
    noun = next(noun for noun in lexicon.NOUNS if noun.en == en)
    return NounPhrase(determiner, noun, **more)


def _verb(table, en: str):
    return next(verb for verb in table if verb.en == en)


_YOUR = lexicon.POSSESSIVES[1][0]
_PAY = _verb(lexicon.TRANSITIVE, "pay")
_FORWARD = _verb(lexicon.TRANSITIVE, "forward")
_SEND = _verb(lexicon.DITRANSITIVE, "send")
_BY_FRIDAY = next(each for each in lexicon.DEADLINES if each.de == "bis Freitag")
_WEBER = lexicon.NAMES[0]
_NOTE = lexicon.STATED[0]
_UNFORTUNATELY = lexicon.SENTENCE_ADVERBS[0]
_PAID = Clause(_the("invoice"), _PAY, Tense.PAST, is_passive=True)
_SENDS = Clause(
    lexicon.SIE,
    _SEND,
    Tense.PRESENT,
    direct=_the("contract"),
    recipient=modifiers.WE,
    time=_BY_FRIDAY,
)
_PERFECT = Clause(
    _the("report", _YOUR, is_plural=True), _FORWARD, Tense.PERFECT, is_passive=True
)
_OPTIONS = Clause(_the("fee"), _PAY, Tense.PRESENT, is_passive=True)


def _with(clause: Clause, **changes) -> Clause:
    return Clause(**{**vars(clause), **changes})


# Written before their derivations.
SENTENCES = (
    (
        Request(_SENDS),
        "Please send us the contract by Friday.",
        "Bitte senden Sie uns den Vertrag bis Freitag.",
    ),
    (
        Request(_with(_SENDS, time=None, is_negated=True)),
        "Please do not send us the contract.",
        "Bitte senden Sie uns den Vertrag nicht.",
    ),
    (
        YesNoQuestion(_with(_SENDS, modal=lexicon.COULD_YOU, asks_politely=True)),
        "Could you please send us the contract by Friday?",
        "Könnten Sie uns bitte den Vertrag bis Freitag senden?",
    ),
    (
        Request(Clause(lexicon.SIE, _FORWARD, Tense.PRESENT, direct=_the("offer"))),
        "Please forward the offer.",
        "Bitte leiten Sie das Angebot weiter.",
    ),
    (
        Statement(_PAID),
        "The invoice was paid.",
        "Die Rechnung wurde bezahlt.",
    ),
    (
        Statement(_PERFECT),
        "Your reports have been forwarded.",
        "Ihre Berichte sind weitergeleitet worden.",
    ),
    (
        YesNoQuestion(_PERFECT),
        "Have your reports been forwarded?",
        "Sind Ihre Berichte weitergeleitet worden?",
    ),
    (
        Statement(_with(_OPTIONS, tense=Tense.FUTURE)),
        "The fee will be paid.",
        "Die Gebühr wird bezahlt werden.",
    ),
    (
        Statement(_with(_OPTIONS, modal=modifiers.HAVE_TO, is_negated=True)),
        "The fee does not have to be paid.",
        "Die Gebühr muss nicht bezahlt werden.",
    ),
    (
        Statement(
            _with(
                _OPTIONS,
                company=Oblique(lexicon.BY, _the("court")),
                time=_UNFORTUNATELY,
                fronts_time=True,
                tense=Tense.PERFECT,
            )
        ),
        "Unfortunately, the fee has been paid by the court.",
        "Leider ist die Gebühr vom Gericht bezahlt worden.",
    ),
    (
        Announcement(_NOTE, lexicon.THAT, _with(_OPTIONS, modal=modifiers.MUST)),
        "Please note that the fee must be paid.",
        "Bitte beachten Sie, dass die Gebühr bezahlt werden muss.",
    ),
    (
        Statement(
            Clause(
                modifiers.I_PRONOUN,
                _SEND,
                Tense.PRESENT,
                modal=lexicon.WOULD_LIKE,
                direct=_the("offer", lexicon.OUR),
                recipient=_WEBER,
            )
        ),
        "I would like to send Mr. Weber our offer.",
        "Ich möchte Herrn Weber unser Angebot senden.",
    ),
    (
        Subordination(
            _with(_SENDS, subject=modifiers.WE, recipient=lexicon.SIE, time=None),
            lexicon.AS_SOON_AS,
            _with(_PAID, tense=Tense.PERFECT),
            True,
        ),
        "As soon as the invoice has been paid, we send you the contract.",
        "Sobald die Rechnung bezahlt worden ist, senden wir Ihnen den Vertrag.",
    ),
)
_DECLENSIONS = """
der Lieferant   den Lieferanten   dem Lieferanten   des Lieferanten
der Investor    den Investor      dem Investor      des Investors
der Ausschuss   den Ausschuss     dem Ausschuss     des Ausschusses
die Firma       die Firma         der Firma         der Firma
das Konto       das Konto         dem Konto         des Kontos
die Firmen      die Firmen        den Firmen        der Firmen
die Muster      die Muster        den Mustern       der Muster
"""


@pytest.fixture(scope="module")
def letters() -> Splits:
    return corpus_splits(2017, 12_000, 1_000, 1_000, draw=draw_sentence)


def test_sentences_written_by_hand():
    for sentence, en, de in SENTENCES:
        assert words.spoken(sentence) == (en, de)


def test_declensions_are_those_of_a_dictionary():
    nouns = {}
    for noun in lexicon.NOUNS:
        nouns |= {noun.de: (noun, False), noun.de_plural: (noun, True)}
    nouns["Muster"] = (_the("sample").noun, True)
    for line in _DECLENSIONS.strip().split("\n"):
        cells = re.split(r" {2,}", line)
        noun, is_plural = nouns[cells[0].split()[1]]
        phrase = NounPhrase(modifiers.THE, noun, is_plural)
        assert [" ".join(nominal_words(phrase, case)) for case in Case] == cells


def test_polite_forms_and_titles_decline():
    assert [nominal_words(lexicon.SIE, case) for case in list(Case)[:3]] == [
        ["Sie"],
        ["Sie"],
        ["Ihnen"],
    ]
    offer = _the("offer", _YOUR)
    assert nominal_words(offer, Case.DATIVE) == ["Ihrem", "Angebot"]
    assert nominal_words(_WEBER, Case.NOMINATIVE) == ["Herr", "Weber"]
    assert nominal_words(_WEBER, Case.DATIVE) == ["Herrn", "Weber"]


@pytest.mark.slow
def test_an_english_sentence_has_one_translation():
    translations = collections.defaultdict(set)
    draws = collections.Counter()
    for pair in itertools.islice(drawn_pairs(8, draw_sentence), 8_000):
        translations[pair.en].add(pair.de)
        draws[pair.en] += 1
    assert sum(count > 1 for count in draws.values()) > 10
    assert [each for each in translations.items() if len(each[1]) > 1] == []


def test_every_pair_is_written_as_people_write(letters):
    sources = [pair.en for split in letters for pair in split]
    assert len(set(sources)) == len(sources)
    for pair in itertools.chain(*letters):
        for text in (pair.en, pair.de):
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß' ,.-]*[.?]", text), text
            assert not re.search(r" [,.?]|,[^ ]|,[.?]|, ,| {2}", text), text
            assert 3 <= len(pair.en.split()) <= 25
        assert pair.en[-1] == pair.de[-1]
        tokens = re.findall(r"\([^\s()]+ ([^\s()]+)\)", pair.tree)
        joined = re.sub(r" ('s|[,.?])", r"\1", " ".join(tokens))
        assert joined.replace("an not", "annot") == pair.en
        assert not re.search(r"\b(du|dich|dir|dein\w*)\b", pair.de)


def test_every_word_of_the_lexicon_is_frequent(letters):
    counts = collections.Counter(
        word.lower()
        for pair in letters.train
        for word in re.findall(r"[\w-]+", pair.en)
    )
    for noun in lexicon.NOUNS:
        assert counts[noun.en] + counts[noun.en_plural] >= 30, noun
    for adjective in lexicon.ADJECTIVES:
        assert counts[adjective.en] >= 50, adjective
    tables = (lexicon.TRANSITIVE, lexicon.DATIVE, lexicon.DITRANSITIVE)
    for verb in itertools.chain(*tables, lexicon.PREPOSITIONAL, lexicon.CLAUSAL):
        forms = {verb.en, verb.en + "s", verb.en_past, verb.en_participle}
        assert sum(counts[form] for form in forms) >= 50, verb


def test_groups_of_the_tables_exist():
    known = {group for noun in lexicon.NOUNS for group in noun.groups}
    for value in vars(lexicon).values():
        for entry in value if isinstance(value, tuple) else ():
            if isinstance(entry, type(_PAY)):
                assert entry.subjects | entry.objects <= known, entry
    for adjective in lexicon.ADJECTIVES:
        assert adjective.groups <= known, adjective


def test_it_is_another_domain_in_the_characters_of_the_first(letters, splits):
    first = splits.train[:12_000]
    letters_used = set("".join(pair.en + pair.de for pair in letters.train))
    assert letters_used <= set("".join(pair.en + pair.de for pair in splits.train))
    # A dictionary learned from the first domain: worse here than word for word there.
    entries = test_word_by_word.most_faithful_companions(first)
    score = test_word_by_word.score(letters.test, lambda word: entries.get(word, word))
    assert score < 5
    ends = [set(re.findall(r"\w+", pair.de)) for pair in first]
    shared = set.union(*ends)
    unknown = [
        word not in shared
        for pair in letters.test
        for word in re.findall(r"\w+", pair.de)
    ]
    assert 0.4 < sum(unknown) / len(unknown) < 0.8
    references = [pair.de for pair in letters.test]
    assert sacrebleu.corpus_bleu(references, [references]).score > 99.9


def test_version_1_0_0_stays_what_it_is(letters):
    lines = "\n".join("\t".join(pair) for split in letters for pair in split)
    digest = hashlib.sha256(lines.encode()).hexdigest()
    assert digest == "4e4532bd5f92ff5c509dde3fcf49a9ff80bc1ae505f6fa1eaec9a95cb9cd1ecd"


def test_examples_of_the_readme_are_in_the_test_split(letters, data_dir):
    readme = (data_dir / "business_ende" / "README.md").read_text(encoding="utf-8")
    assert "train 12,000, validation 1,000, test 1,000" in readme
    examples = readme.split("## Examples")[1].split("## What")[0]
    rows = re.findall(r"^\| ([A-Z].*) \| (.*) \|$", examples, re.MULTILINE)
    assert len(rows) >= 5
    assert set(rows) <= {(pair.en, pair.de) for pair in letters.test}


def test_builder_yields_the_pairs_of_the_corpus(tmp_path, monkeypatch):
    builder = _prepared("business_ende", "BusinessEnde", SMALL, tmp_path, monkeypatch)
    corpus = corpus_splits(2017, *SMALL, draw=draw_sentence)
    for split, pairs in corpus._asdict().items():
        examples = {tuple(sorted(each.items())) for each in _texts(builder, split)}
        assert examples == {tuple(sorted(pair._asdict().items())) for pair in pairs}
    module = importlib.import_module("business_ende.business_ende_dataset_builder")
    monkeypatch.undo()
    builder_class = module.BusinessEnde
    assert builder_class.TRAIN_PAIRS == 12_000
    assert builder_class.VALIDATION_PAIRS == builder_class.TEST_PAIRS == 1_000
