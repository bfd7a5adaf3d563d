"""Word alignments: Pharaoh format, words of pieces, links from weights."""

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords
from t2t_keras.text.word_alignments import (
    WordAlignment,
    check_within,
    format_links,
    link_words,
    parse_alignment,
    parse_alignments,
    split_words,
)
from t2t_keras.text.word_numbers import word_numbers

TEXTS = (
    "the dog sleeps, and a grün😀 tree walks!",
    "  two\u00a0spaces \t\u2581and\u3000others  ",
    "x",
    "",
    "a.b-c 'd' (e) … 東京 Straße",
    "<2de> the dog<2de>sleeps <2de>",
)


def test_links_are_written_and_read():
    line = parse_alignment(b" 0-0  3-12\t2p1 4?0 3p12\r", "Line 1")
    assert line.sure == {(0, 0), (3, 12)}
    # A link that is sure is not repeated.
    assert line.possible == {(2, 1), (4, 0)}
    assert format_links(sorted(line.sure)) == "0-0 3-12"
    assert format_links([]) == ""
    assert list(parse_alignments([b"", b"1-0"], "f")) == [
        WordAlignment(frozenset()),
        WordAlignment(frozenset({(1, 0)})),
    ]


def test_malformed_links_are_refused_with_their_line():
    for text in ("0", "0-", "-1-2", "0_1", "1-2-3", "a-b", "0-1,2-3", "٣-1x", "1.0-2"):
        with pytest.raises(UserError) as caught:
            list(parse_alignments([b"0-0", f"1-1 {text}".encode()], "out.align"))
        assert str(caught.value).startswith("Line 2 of out.align must have links such")
        assert str(caught.value).endswith(f"Received: {text}")


def test_links_outside_the_sentences_are_refused():
    pair = "the old dog", "der alte Hund schläft"
    check_within(parse_alignment("2-3 0p1", ""), *pair, "Line 7")
    for text in ("3-0", "0-4", "0p4", "0-0 3?3"):
        with pytest.raises(UserError, match=r"Line 7 has the link .* 3 and 4 words"):
            check_within(parse_alignment(text, ""), *pair, "Line 7")


@pytest.fixture(scope="module")
def vocabularies():
    lines = [*TEXTS[:5], "the tree sleeps", "a dog walks"]
    return [
        SubwordVocabulary(learn_subwords(lines, vocabulary_size=size, **more))
        for size, more in ((300, {}), (320, {"user_symbols": ("<2de>",)}))
    ]


def test_pieces_belong_to_the_words_that_white_space_separates(vocabularies):
    for vocabulary in vocabularies:
        for text in TEXTS:
            ids = vocabulary.encode(text)[:-1]
            numbers = word_numbers(vocabulary.pieces(ids))
            words = split_words(text)
            assert numbers == sorted(numbers)
            assert set(numbers) == set(range(len(words)))
            for number, word in enumerate(words):
                own = [i for i, n in zip(ids, numbers, strict=True) if n == number]
                assert vocabulary.decode(own) == word, (text, word)


def test_words_of_pieces_of_other_vocabularies():
    # Without a space in front, with spaces of their own, and with several words.
    assert word_numbers(["the", "▁do", "g"]) == [0, 1, 1]
    assert word_numbers(["▁", "the", "▁", "do", "g"]) == [0, 0, 1, 1, 1]
    assert word_numbers(["▁of▁the", "▁dog", "s▁in", "▁it"]) == [0, 2, 2, 4]
    # After the piece of a language.
    assert word_numbers(["", "▁do", "g", "▁", "s"]) == [-1, 0, 0, 1, 1]
    assert word_numbers(["", "the", "▁do"]) == [-1, 0, 1]
    assert link_words(np.ones((3, 2)), [-1, 0], [-1, 0, 1]) == [(0, 0), (0, 1)]


def slow_links(weights, source_words, target_words, ignored):
    """Returns the links by a loop over all words, from their definition."""
    links = []
    for j in sorted(set(target_words)):
        rows = [t for t, word in enumerate(target_words) if word == j]
        best, best_weight = None, -1.0
        for i in sorted(set(source_words) - set(ignored)):
            columns = [s for s, word in enumerate(source_words) if word == i]
            weight = sum(weights[t, s] for t in rows for s in columns) / len(rows)
            if weight > best_weight:
                best, best_weight = i, weight
        links.append((best, j))
    return sorted(links)


def test_links_are_those_of_a_loop_over_all_words():
    generator = np.random.default_rng(3)
    differ = 0
    for _ in range(60):
        source, target = (
            np.cumsum(generator.random(generator.integers(1, size)) < 0.6)
            for size in (13, 11)
        )
        source, target = source - source[0], target - target[0]
        weights = generator.dirichlet(np.full(len(source), 0.4), len(target))
        links = link_words(weights, source.tolist(), target.tolist())
        assert links == slow_links(weights, source.tolist(), target.tolist(), ())
        # The piece of the largest weight may be in another word.
        alone = {(source[weights[t].argmax()], target[t]) for t in range(len(target))}
        differ += set(links) != alone
        tagged = link_words(weights, (source - 1).tolist(), target.tolist())
        if source.max():
            expected = slow_links(weights, source.tolist(), target.tolist(), {0})
            assert tagged == [(i - 1, j) for i, j in expected]
        else:
            assert tagged == []
    assert differ > 20


def test_equal_weights_link_the_first_word_and_no_word_gives_no_link():
    assert link_words(np.full((2, 3), 1 / 3), [0, 1, 2], [0, 1]) == [(0, 0), (0, 1)]
    assert link_words(np.zeros((0, 2)), [0, 1], []) == []
    assert link_words(np.zeros((2, 0)), [], [0, 1]) == []
