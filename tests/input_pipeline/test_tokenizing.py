import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.input_pipeline.records import tokenized
from t2t_keras.input_pipeline.records.tokenized import (
    TokenizationReport,
    tokenize_corpus,
)
from tests.input_pipeline.made_up import made_up_pairs


def as_dataset(pairs):
    source = tf.constant([source for source, _ in pairs], tf.string, [len(pairs)])
    target = tf.constant([target for _, target in pairs], tf.string, [len(pairs)])
    return tf.data.Dataset.from_tensor_slices({"source": source, "target": target})


def expected_pairs(vocabulary, pairs, max_length):
    encoded = [(vocabulary.encode(s), vocabulary.encode(t)) for s, t in pairs]
    return [p for p in encoded if all(1 < len(side) <= max_length for side in p)]


def read_pairs(corpus):
    rows = [corpus.pair(index) for index in range(len(corpus))]
    return [(source.tolist(), target.tolist()) for source, target in rows]


@settings(max_examples=8)
@given(
    st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=9),
    st.integers(5, 12),
)
def test_pairs_come_in_order_and_the_rest_is_counted(vocabulary, pairs, max_length):
    pairs = [*pairs, ("the", "Haus")]
    corpus = tokenize_corpus(as_dataset(pairs), vocabulary, max_length)
    expected = expected_pairs(vocabulary, pairs, max_length)
    assert read_pairs(corpus) == expected
    report = corpus.report
    assert report.pairs_kept == len(corpus) == len(expected)
    dropped = report.dropped_over_long + report.dropped_empty
    assert len(pairs) == report.pairs_kept + dropped
    assert report.source_tokens == sum(len(source) for source, _ in expected)
    assert report.target_tokens == sum(len(target) for _, target in expected)
    assert corpus.lengths.tolist() == [[len(s), len(t)] for s, t in expected]


def test_over_long_and_empty_are_told_apart(vocabulary):
    limit = len(vocabulary.encode("the old house"))
    pairs = [
        ("the old house", "Haus"),
        ("the old house .", "Haus"),
        ("Haus", "the old house ."),
        ("", "Haus"),
        ("Haus", " \u3000"),
        ("", "the old house . . ."),
        ("Haus", "Haus"),
    ]
    corpus = tokenize_corpus(as_dataset(pairs), vocabulary, limit)
    assert corpus.report == TokenizationReport(
        pairs_kept=2,
        dropped_over_long=2,
        dropped_empty=3,
        source_tokens=limit + len(vocabulary.encode("Haus")),
        target_tokens=2 * len(vocabulary.encode("Haus")),
    )


def test_chunks_do_not_show(vocabulary, monkeypatch):
    pairs = made_up_pairs(50, seed=4)
    whole = tokenize_corpus(as_dataset(pairs), vocabulary, 30)
    monkeypatch.setattr(tokenized, "_LINES_PER_CALL", 7)
    in_pieces = tokenize_corpus(as_dataset(pairs), vocabulary, 30)
    assert read_pairs(in_pieces) == read_pairs(whole)
    assert read_pairs(whole) == expected_pairs(vocabulary, pairs, 30)


def test_ids_are_as_small_as_the_vocabulary_allows(vocabulary, monkeypatch):
    pairs = made_up_pairs(5, seed=4)
    small = tokenize_corpus(as_dataset(pairs), vocabulary, 100)
    assert small.source.tokens.dtype == small.target.tokens.dtype == np.uint16
    monkeypatch.setattr(type(vocabulary), "size", 65_536)
    assert (
        tokenize_corpus(as_dataset(pairs), vocabulary, 100).source.tokens.itemsize == 2
    )
    monkeypatch.setattr(type(vocabulary), "size", 65_537)
    large = tokenize_corpus(as_dataset(pairs), vocabulary, 100)
    assert large.source.tokens.dtype == np.int32
    assert read_pairs(large) == read_pairs(small)


def test_nothing_left_is_an_error(vocabulary):
    pairs = [("the old green house", "Haus"), ("", "Haus"), ("Haus", "")]
    with pytest.raises(
        UserError,
        match=r": 1 pairs longer than 4 .* 2 with .*of 3\. Raise --max_l",
    ):
        tokenize_corpus(as_dataset(pairs), vocabulary, 4)
    before = TokenizationReport(dropped_empty=3, dropped_by_filters=2)
    with pytest.raises(UserError, match=r"left: 0 .* 3 with .* 2 rej.* of 5\. Check"):
        tokenize_corpus(as_dataset([]), vocabulary, 4, before=before)


def test_a_limit_that_cannot_be_meant(vocabulary):
    with pytest.raises(
        ValueError, match=r"max_length must be at least 2\. Received: 1"
    ):
        tokenize_corpus(as_dataset([("a", "b")]), vocabulary, 1)
