"""business_ende: properties of every pair, and its builder."""

import collections
import hashlib
import importlib
import itertools
import re

import pytest
from business_ende.sample_sentences import draw_sentence
from grammar_ende.corpus import Splits, corpus_splits, drawn_pairs

from tests.data.test_dataset_builders import SMALL, _prepared, _texts


@pytest.fixture(scope="module")
def letters() -> Splits:
    return corpus_splits(2017, 12_000, 1_000, 1_000, draw=draw_sentence)


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


def test_version_1_0_0_stays_what_it_is(letters):
    lines = "\n".join("\t".join(pair) for split in letters for pair in split)
    digest = hashlib.sha256(lines.encode()).hexdigest()
    assert digest == "4e4532bd5f92ff5c509dde3fcf49a9ff80bc1ae505f6fa1eaec9a95cb9cd1ecd"


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
