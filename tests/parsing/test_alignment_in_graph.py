import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.alignment import aligned
from t2t_keras.parsing.alignment_in_graph import aligned_in_graph
from tests.parsing.test_alignment import KINDS

TRACED = tf.function(
    aligned_in_graph,
    input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2
    + [tf.TensorSpec([None], tf.int32)] * 2,
)


def padded(rows: list[list[int]], more: int) -> np.ndarray:
    """The rows, and beyond their ends what must not matter."""
    width = max(map(len, rows), default=0) + more
    return np.array(
        [[*row, *(i % 4 for i in range(width - len(row)))] for row in rows], np.int32
    ).reshape(len(rows), width)


def in_graph(pairs: list[tuple[list[int], list[int]]], more: int):
    tags, words = ([pair[side] for pair in pairs] for side in (0, 1))
    found = TRACED(
        padded(tags, more),
        padded(words, more),
        np.array([len(row) for row in tags], np.int32),
        np.array([len(row) for row in words], np.int32),
    ).numpy()
    beyond = [row[len(pair[1]) :] for row, pair in zip(found, pairs, strict=True)]
    assert all((row == -1).all() for row in beyond)
    return [
        [None if tag < 0 else tag for tag in row[: len(pair[1])].tolist()]
        for row, pair in zip(found, pairs, strict=True)
    ]


@given(st.lists(st.tuples(KINDS, KINDS), max_size=7), st.integers(0, 2))
def test_the_same_as_in_python(pairs, more):
    assert in_graph(pairs, more) == [aligned(*pair) for pair in pairs]


def test_passing_over_a_part_of_speech_rather_than_a_word():
    tags, words = [0, 1, 0, 1, 0, 2, 3], [1, 0, 1, 0, 1, 2]
    assert in_graph([(tags, words)], 0) == [[1, 2, 3, 4, 5, 6]]


def test_long_sentences_beside_short_ones():
    rng = np.random.default_rng(7)
    pairs = [
        (
            rng.choice(4, size=tags, p=[0.7, 0.1, 0.1, 0.1]).tolist(),
            rng.choice(4, size=words, p=[0.7, 0.1, 0.1, 0.1]).tolist(),
        )
        for tags, words in [(90, 61), (0, 70), (3, 2), (61, 90), (90, 90), (44, 0)]
    ]
    assert in_graph(pairs, 0) == [aligned(*pair) for pair in pairs]
