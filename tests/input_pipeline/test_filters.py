"""Filters of training pairs: each by itself, and applied to a corpus."""

import functools
import io
import random
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.corpora import corpus as corpora
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.input_pipeline.corpora.filtered import PairFilters
from t2t_keras.input_pipeline.corpora.filters import (
    IsDuplicate,
    exceeds_length_ratio,
    has_markup,
    has_other_numbers,
    is_copied,
    is_in_another_language,
    is_in_another_script,
)


def test_length_ratio_counts_words_or_characters():
    rows = (
        # ratio, unit, source, target, rejected
        ("2", "words", "a b c d", "x y", False),  # exactly twice as long
        ("2", "words", "a b c d e", "x y", True),
        ("2", "words", "x y", "a b c d e", True),
        ("5/2", "words", "x y", "a b c d e", False),
        ("1", "words", "one two", "Donaudampfschifffahrt heute", False),
        ("1", "words", "one two", "heute", True),
        ("2", "characters", "abcd", "äß", False),
        ("2", "characters", "abcde", "äß", True),
        ("3", "characters", "a b", "abcdefghij", True),
    )
    for ratio, unit, source, target, expected in rows:
        reject = exceeds_length_ratio(Fraction(ratio), unit)
        assert reject([source], [target]).tolist() == [expected], (ratio, source)


def test_copied_compares_whole_sides():
    sources = ["a b", "a b", "A b", ""]
    assert is_copied(sources, ["a b", "a b c", "a b", "x"]).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_duplicates_are_those_of_a_set_of_pairs():
    # Against a Python set, in chunks of any size: pairs that share a side are no
    # duplicates, and neither are "a b|c" and "a|b c".
    generator = random.Random(3)
    is_duplicate, seen = IsDuplicate(), set()
    total = 0
    for _ in range(60):
        size = generator.randrange(0, 60)
        pairs = [
            (str(generator.randrange(40)), str(generator.randrange(40)))
            for _ in range(size)
        ]
        expected = []
        for pair in pairs:
            expected.append(pair in seen)
            seen.add(pair)
        found = is_duplicate([s for s, _ in pairs], [t for _, t in pairs])
        assert found.dtype == bool
        assert found.tolist() == expected
        total += sum(expected)
    assert total > 300
    assert len(is_duplicate._runs) < 8
    assert IsDuplicate()(["a b", "a"], ["c", "b c"]).tolist() == [False, False]


def test_script_needs_half_of_the_letters():
    rows = (
        ("en", "de", "The dog sleeps.", "Der Hund schläft.", False),
        ("en", "de", "The dog sleeps.", "Собака спит.", True),
        ("en", "de", "Собака спит.", "Der Hund schläft.", True),
        ("en", "ru", "The dog sleeps.", "Собака спит.", False),
        ("en", "ru", "Windows 10", "Windows 10", True),
        ("en", "de", "42 %", "½ — 42", False),  # no letters
        ("en", "de", "ab αβ", "x", False),  # half is enough
        ("en", "de", "ab αβγ", "x", True),
        ("zh", "ja", "狗在睡觉。", "犬が寝ています。", False),
        ("zh", "ja", "イヌ", "犬", True),
        ("ko", "el", "개가 자요", "\u03c3κύλλλ", False),
        ("en", "de", "\uff21\uff22", "\uff58", False),  # full width
        ("sr", "hi", "Pas спава", "कुत्ता", False),
    )
    for source_language, target_language, source, target, expected in rows:
        reject = is_in_another_script(source_language, target_language)
        assert reject([source], [target]).tolist() == [expected], (source, target)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (is_in_another_script, "does not know the script .* 'tree'.*, de, "),
        (is_in_another_language, "cannot detect the language 'tree'.*, de, "),
    ],
)
def test_an_unknown_language_is_refused(make, message):
    with pytest.raises(UserError, match=message):
        make("en", "tree")


EN, DE, FR = (
    "The old teacher gave the child three red apples.",
    "Der alte Lehrer gab dem Kind drei rote Äpfel.",
    "Le vieux professeur a donné trois pommes rouges à l'enfant.",
)


def test_a_language_is_another_one_only_if_that_is_sure():
    rows = (
        ("en", "de", EN, DE, False),
        ("en", "de", DE, EN, True),
        ("en", "de", EN, EN, True),
        ("en", "de", DE, DE, True),
        ("en", "de", EN, FR, True),
        ("fr", "de-AT", FR, DE, False),
        ("en", "nb", EN, "Den gamle læreren ga barnet tre røde epler.", False),
        ("en", "zh-Hans", EN, "老师给了孩子三个红苹果。", False),
        # Too little to be sure: names, numbers, one word, nothing but an address.
        ("en", "de", "Angela Merkel, Berlin", "Barack Obama, New York", False),
        ("en", "de", "42 %", "½ — 42", False),
        ("en", "de", "Hund", "dog", False),
        ("en", "de", "https://the.old/teacher/gave/the/child", DE, False),
        ("en", "de", "OK", "", False),
    )
    opened = functools.cache(is_in_another_language)
    for *languages, source, target, expected in rows:
        reject = opened(*languages)
        assert reject([source], [target]).tolist() == [expected], (source, target)


def test_markup_is_a_tag_or_an_entity_of_html():
    for text, expected in (
        ("a <b>bold</b> word", True),
        ("line<br/>break", True),
        ("line <BR> break", True),
        ('<a href="x.html">link', True),
        ("end</p>", True),
        ("<!-- comment -->", True),
        ("<!DOCTYPE html>", True),
        ("<o:p></o:p>", True),
        ("Tom &amp; Jerry", True),
        ("it&#39;s", True),
        ("it&#x27;s", True),
        ("caf&eacute;", True),
        ("a &lt; b", True),
        ("Tom & Jerry", False),
        ("AT&T; R&D", False),
        ("?a=1&para=2", False),
        ("a &nosuchname; b", False),
        ("a < b and c > d", False),
        ("1 <2> 3, I <3 it", False),
        ("<joe@example.com>", False),
        ("<https://example.com/>", False),
        ("<bt> back-translated <2de>", False),  # symbols of the user
        ("<bt> and <b>", True),
        ("", False),
    ):
        reject = has_markup(["<bt>", "<2de>"])
        assert reject([text, "a"], ["a", text]).tolist() == [expected] * 2, text
    assert has_markup()(["<bt> a"], ["a"]).tolist() == [True]


def test_numbers_are_compared_without_separators_and_order():
    for source, target, expected in (
        ("1,000.5 m", "1.000,5 m", False),
        ("1000 m", "1 000 m", False),
        ("1,234,567", "1\u2019234\u2019567", False),
        ("1,000 m", "1.001 m", True),
        ("12/31/2010", "31.12.2010", False),
        ("May 7, 2010", "7. Mai 2010", False),
        ("07:05", "7.5", False),
        ("in 2010 300 people", "300 Leute, 2010", False),
        ("42 and 43", "43 und 42", False),
        ("42 and 42", "42", True),
        ("42", "24", True),
        ("42", "", True),
        ("three", "3", False),  # perhaps a word
        ("at 12", "mittags", False),
        ("at 13", "mittags", True),
        ("3 of them", "4 davon", True),  # no word is missing
        ("the 1990s", "die 90er", True),
        ("no number", "keine Zahl", False),
        ("٤٢", "42", False),
        ("9" * 5000, "9" * 5000, False),
        ("9" * 5000, "9" * 5001, True),
    ):
        pairs = [source, target], [target, source]
        assert has_other_numbers(*pairs).tolist() == [expected] * 2, (source, target)


PAIRS = (
    ("a b", "x y"),
    ("", "y"),  # no pair: left out before the filters, and counted as a line
    ("c", "c"),
    ("a  b ", "x y"),  # equal to the first but for white space
    ("a", "x y z"),
    ("c", "c"),  # copied, not a duplicate: the first filter that rejects it counts
    ("d", "y"),
)
FILTERS = MappingProxyType(
    {
        "ratio": lambda: exceeds_length_ratio(Fraction(2), "words"),
        "copied": lambda: is_copied,
        "duplicates": IsDuplicate,
    }
)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS))
    dev = tmp_path / "dev.tsv"
    dev.write_text("c\tc\n")
    return open_corpus(files={"train": ([path], ()), "dev": ([dev], ())})


def test_a_corpus_without_its_rejected_pairs(corpus, monkeypatch):
    for size in (1024, 2):
        monkeypatch.setattr(corpora, "_PAIRS_PER_CHUNK", size)
        tables, rejected = [], io.StringIO()
        with log_to(tables.append):
            filtered = PairFilters(FILTERS, rejected).apply(corpus, "x:")
        for _ in range(2):  # reading again starts anew
            chunks = list(filtered.chunks("train"))
            pairs = [p for chunk in chunks for p in zip(*chunk, strict=True)]
            assert pairs == [(b"a b", b"x y"), (b"d", b"y")]
        elements = filtered.pairs("train").as_numpy_iterator()
        assert [(e["source"], e["target"]) for e in elements] == pairs
        assert filtered.splits["train"].num_pairs == 2
        assert rejected.getvalue().splitlines() == [
            "x:3\tcopied\tc\tc",
            "x:4\tduplicates\ta b\tx y",
            "x:5\tratio\ta\tx y z",
            "x:6\tcopied\tc\tc",
        ]
        assert tables == [
            "filters of the 6 training pairs of text files rejected\n"
            "  ratio                  1\n"
            "  copied                 2\n"
            "  duplicates             1\n"
            "  kept                   2"
        ]
        # The dev set is not training text.
        assert list(filtered.chunks("dev")) == [([b"c"], [b"c"])]


def test_the_fingerprint_is_that_of_the_pairs_kept(corpus):
    def fingerprint(*names):
        filters = PairFilters({name: FILTERS[name] for name in names})
        return filters.apply(corpus).splits["train"].fingerprint

    all_three = fingerprint("ratio", "copied", "duplicates")
    assert fingerprint("duplicates", "copied", "ratio") == all_three
    others = [fingerprint("ratio"), fingerprint("copied"), fingerprint()]
    assert len({all_three, *others}) == 4
    assert others[-1] == corpus.splits["train"].fingerprint


def test_the_order_of_the_filters_does_not_change_what_is_kept(corpus):
    kept = [
        list(PairFilters({n: FILTERS[n] for n in names}).apply(corpus).chunks("train"))
        for names in (FILTERS, reversed(FILTERS))
    ]
    assert kept[0] == kept[1]


def test_a_corpus_without_any_pair_left_is_refused(corpus):
    everything = {"all": lambda: lambda sources, _: np.ones(len(sources), bool)}
    filters = PairFilters(everything)
    filters.check_any_left()
    filters.apply(corpus)
    with pytest.raises(UserError, match=r"(?s)No sentence pair is left.*all .* 6\n"):
        filters.check_any_left()
