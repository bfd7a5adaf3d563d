"""Properties of every pair of grammar_ende and business_ende, and of both corpora."""

import collections
import hashlib
import itertools
import re
import subprocess
import sys

import pytest
from business_ende import sample_sentences as letters
from grammar_ende.corpus import corpus_splits, drawn_pairs
from grammar_ende.sample_sentences import draw_sentence

_DIGEST_PROGRAM = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from grammar_ende.corpus import corpus_splits
text = repr(corpus_splits(5, 300, 20, 20))
print(hashlib.sha256(text.encode()).hexdigest())
"""
BOTH = pytest.mark.parametrize(
    "splits", ["grammar_ende", "business_ende"], indirect=True
)


@pytest.mark.parametrize(
    ("splits", "marks"),
    [("grammar_ende", ",-"), ("business_ende", ",.-")],
    indirect=["splits"],
)
def test_sentences_are_written_as_people_write(splits, marks):
    pattern = rf"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß' {marks}]*[.?]"
    sources = [pair.en for split in splits for pair in split]
    assert len(set(sources)) == len(sources)
    for pair in itertools.chain(*splits):
        for text in (pair.en, pair.de):
            assert re.fullmatch(pattern, text), text
            assert not re.search(r" [,.?]|,[^ ]|,[.?]|, ,| {2}", text), text
        assert pair.en[-1] == pair.de[-1]
        assert 3 <= len(pair.en.split()) <= 25


@pytest.mark.parametrize("splits", ["grammar_ende"], indirect=True)
def test_sentences_are_of_usual_length(splits):
    lengths = [len(pair.en.split()) for pair in splits.train]
    assert 9 <= sum(lengths) / len(lengths) <= 11


@BOTH
def test_tree_holds_the_tokens_of_the_sentence(splits):
    for pair in itertools.chain(*splits):
        # Each token follows its part of speech: "(NN dog)".
        tokens = re.findall(r"\([^\s()]+ ([^\s()]+)\)", pair.tree)
        joined = " ".join(tokens)
        joined = re.sub(r" ('s|[,.?])", r"\1", joined).replace("an not", "annot")
        assert joined == pair.en


@pytest.mark.parametrize(
    ("splits", "digest"),
    [
        (
            "grammar_ende",
            "dbf1a2b7ff122b3330a220788ec1f76b90417ac3035b6cf05442e04401981642",
        ),
        (
            "business_ende",
            "4e4532bd5f92ff5c509dde3fcf49a9ff80bc1ae505f6fa1eaec9a95cb9cd1ecd",
        ),
    ],
    indirect=["splits"],
)
def test_version_1_0_0_stays_what_it_is(splits, digest):
    # In addition to the properties above: a changed corpus needs a new version number.
    lines = "\n".join("\t".join(pair) for split in splits for pair in split)
    assert hashlib.sha256(lines.encode()).hexdigest() == digest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "count"), [(draw_sentence, 15_000), (letters.draw_sentence, 5_000)]
)
def test_an_english_sentence_has_one_translation(draw, count):
    # Among so many draws, short sentences repeat often enough to show a second one.
    translations = collections.defaultdict(set)
    draws = collections.Counter()
    for pair in itertools.islice(drawn_pairs(8, draw), count):
        translations[pair.en].add(pair.de)
        draws[pair.en] += 1
    assert sum(count > 1 for count in draws.values()) > 10
    assert [each for each in translations.items() if len(each[1]) > 1] == []


@pytest.mark.parametrize("splits", ["grammar_ende"], indirect=True)
def test_tree_is_one_well_formed_tree(splits):
    for pair in itertools.chain(*splits):
        rest = re.sub(r"\([A-Z$.,]+ [^\s()]+\)", "*", pair.tree)
        while rest != "*":
            reduced = re.sub(r"\((?:S|SQ|SBARQ|[A-Z]+)(?: \*)+\)", "*", rest)
            assert reduced != rest, pair.tree
            rest = reduced
        top = pair.tree[1:].split(" ", 1)[0]
        assert top in ("S", "SQ", "SBARQ")
        assert (top == "S") == (pair.en[-1] == ".")


def test_same_seed_same_corpus_and_another_seed_another():
    assert corpus_splits(3, 200, 20, 20) == corpus_splits(3, 200, 20, 20)
    assert corpus_splits(3, 200, 20, 20) != corpus_splits(4, 200, 20, 20)


def test_corpus_does_not_depend_on_the_hash_seed(data_dir):
    # The order of sets differs between processes, and must not change the corpus.
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST_PROGRAM, str(data_dir)],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2", "3")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("splits", ["business_ende"], indirect=True)
def test_letters_address_people_formally(splits):
    for pair in itertools.chain(*splits):
        assert not re.search(r"\b(du|dich|dir|dein\w*)\b", pair.de)
