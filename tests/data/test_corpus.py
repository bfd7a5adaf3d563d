"""Properties of every pair of grammar_ende, and of the whole corpus."""

import collections
import hashlib
import itertools
import re
import subprocess
import sys

import pytest
from grammar_ende.corpus import corpus_splits, drawn_pairs

_DIGEST_PROGRAM = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from grammar_ende.corpus import corpus_splits
text = repr(corpus_splits(5, 300, 20, 20))
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_no_english_sentence_occurs_twice(splits):
    sources = [pair.en for split in splits for pair in split]
    assert len(set(sources)) == len(sources)


@pytest.mark.slow
def test_an_english_sentence_has_one_translation():
    # Among so many draws, short sentences repeat often enough to show a second one.
    translations = collections.defaultdict(set)
    draws = collections.Counter()
    for pair in itertools.islice(drawn_pairs(seed=8), 20_000):
        translations[pair.en].add(pair.de)
        draws[pair.en] += 1
    assert sum(count > 1 for count in draws.values()) > 10
    assert [each for each in translations.items() if len(each[1]) > 1] == []


def test_sentence_lengths(splits):
    lengths = [len(pair.en.split()) for pair in splits.train]
    assert min(lengths) >= 3
    assert max(lengths) <= 25
    assert 9 <= sum(lengths) / len(lengths) <= 11


def test_sentences_are_written_as_people_write(splits):
    for pair in itertools.chain(*splits):
        for text in (pair.en, pair.de):
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß' ,-]*[.?]", text), text
            assert not re.search(r" [,.?]|,[^ ]|,[.?]|, ,| {2}", text), text
        assert pair.en[-1] == pair.de[-1]


def test_tree_holds_the_tokens_of_the_sentence(splits):
    for pair in itertools.chain(*splits):
        # Each token follows its part of speech: "(NN dog)".
        tokens = re.findall(r"\([^\s()]+ ([^\s()]+)\)", pair.tree)
        joined = " ".join(tokens)
        joined = re.sub(r" ('s|[,.?])", r"\1", joined).replace("an not", "annot")
        assert joined == pair.en


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


def test_version_1_0_0_stays_what_it_is(splits):
    # In addition to the properties above: a changed corpus needs a new version number.
    lines = "\n".join("\t".join(pair) for split in splits for pair in split)
    digest = hashlib.sha256(lines.encode()).hexdigest()
    assert digest == "dbf1a2b7ff122b3330a220788ec1f76b90417ac3035b6cf05442e04401981642"
