import numpy as np

from t2t_keras.input_pipeline.records.tokenized import (
    TokenizationReport,
    corpus_in_memory,
    filter_pairs,
    join_chunks,
    token_positions,
)
from tests.input_pipeline.made_up import random_corpus


def side(*sentences):
    ids = [token for sentence in sentences for token in sentence]
    return np.array(ids, np.int32), np.array([len(s) for s in sentences], np.int64)


SOURCE = ((5, 1), (1,), (5, 6, 7, 1), (70_000, 6, 1), (8, 1), (1,))
TARGET = ((9, 8, 1), (9, 1), (3, 1), (5, 1), (4, 4, 4, 1), (9, 9, 9, 1))


def test_gathering_takes_sentences_in_any_order():
    corpus = random_corpus(50, longest=9, seed=2)
    random = np.random.default_rng(3)
    for count in (0, 1, 7, 120):
        indices = random.integers(0, 50, count)
        tokens, lengths = corpus.source.gather(indices)
        begins, ends = corpus.source.offsets[:-1], corpus.source.offsets[1:]
        rows = [corpus.source.tokens[begins[i] : ends[i]] for i in indices]
        assert lengths.tolist() == [len(row) for row in rows]
        assert tokens.tolist() == [token for row in rows for token in row]


def test_positions_of_no_sentence_and_of_an_empty_one():
    none = np.zeros(0, np.int64)
    assert token_positions(none, none).tolist() == []
    starts = np.array([9, 4, 2], np.uint32)
    positions = token_positions(starts, np.array([2, 0, 1]))
    assert positions.tolist() == [9, 10, 2]


def test_pairs_are_kept_or_counted():
    chunk = filter_pairs(side(*SOURCE), side(*TARGET), 3, 80_000)
    assert chunk.tokens[0].tolist() == [5, 1, 70_000, 6, 1]
    assert chunk.tokens[1].tolist() == [9, 8, 1, 5, 1]
    assert chunk.lengths.tolist() == [[2, 3], [3, 2]]
    assert chunk.report == TokenizationReport(2, 2, 2, 5, 5)
    assert {array.dtype for array in chunk.tokens} == {np.dtype(np.int32)}


def test_two_bytes_a_token_where_they_do():
    one, two = side([5, 1]), side([65_535, 1])
    assert filter_pairs(one, two, 9, 65_536).tokens[1].tolist() == [65_535, 1]
    assert filter_pairs(one, two, 9, 65_536).tokens[1].dtype == np.uint16
    assert filter_pairs(one, two, 9, 65_537).tokens[1].dtype == np.int32


def test_chunks_joined_are_the_whole():
    parts = [
        filter_pairs(side(*SOURCE[a:b]), side(*TARGET[a:b]), 3, 80_000)
        for a, b in ((0, 2), (2, 3), (3, 6))
    ]
    whole = filter_pairs(side(*SOURCE), side(*TARGET), 3, 80_000)
    chunk = join_chunks(parts)
    assert chunk.report == whole.report
    np.testing.assert_array_equal(chunk.lengths, whole.lengths)
    corpus = corpus_in_memory(chunk)
    assert len(corpus) == 2
    assert corpus.lengths.tolist() == [[2, 3], [3, 2]]
    assert [part.tolist() for part in corpus.pair(1)] == [[70_000, 6, 1], [5, 1]]
