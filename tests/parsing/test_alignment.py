import functools
import itertools

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.alignment import align_tags, align_tags_in_graph

KINDS = st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), max_size=9)


def slow_alignment(tags, words):
    """Of all ways from left to right the first in order of (changes, spelling).

    A way is spelled in a (a word gets the next part of speech), b (a part of speech is
    passed over) and c (a word is).
    """
    if len(tags) == len(words):
        return list(range(len(words)))

    @functools.cache
    def best(t, w):
        ways = []
        if t < len(tags) and w < len(words):
            changes, way = best(t + 1, w + 1)
            ways.append((changes + (tags[t] != words[w]), "a" + way))
        if t < len(tags):
            changes, way = best(t + 1, w)
            ways.append((changes + 1, "b" + way))
        if w < len(words):
            changes, way = best(t, w + 1)
            ways.append((changes + 1, "c" + way))
        return min(ways, default=(0, ""))

    numbers = itertools.count()
    found = []
    for move in best(0, 0)[1]:
        tag = next(numbers) if move in "ab" else None
        if move in "ac":
            found.append(tag)
    return found


def test_examples():
    rows = (
        ([], [], []),
        ([], [0, 1], [None, None]),
        ([0, 1], [], []),
        # Equally many: in order, whatever they are.
        ([1, 0, 2], [0, 2, 1], [0, 1, 2]),
        # The dog barks , she said . - a part of speech forgotten before the comma,
        # after it, and the comma's.
        ([0, 0, 2, 0, 0, 1], [0, 0, 0, 2, 0, 0, 1], [0, 1, None, 2, 3, 4, 5]),
        ([0, 0, 0, 2, 0, 1], [0, 0, 0, 2, 0, 0, 1], [0, 1, 2, 3, 4, None, 5]),
        ([0, 0, 0, 0, 0, 1], [0, 0, 0, 2, 0, 0, 1], [0, 1, 2, None, 3, 4, 5]),
        # One too many: a comma, and another.
        ([0, 2, 0, 0, 2, 0, 1], [0, 0, 0, 2, 0, 1], [0, 2, 3, 4, 5, 6]),
        ([0, 0, 0, 2, 0, 1], [0, 0, 2, 0, 1], [0, 1, 3, 4, 5]),
        # The first of two commas forgotten, which neither the first nor the last
        # commas that agree would tell.
        ([0, 0, 0, 0, 2, 0, 1], [0, 2, 0, 0, 0, 2, 0, 1], [0, None, 1, 2, 3, 4, 5, 6]),
        # A comma that is called a noun, and a part of speech too many.
        ([0, 0, 0, 0, 1], [0, 2, 0, 1], [0, 1, 2, 4]),
        # To pass over a part of speech and over a word are worth the same, but not to
        # give it to the word.
        ([0, 1, 0, 1, 0, 2, 3], [1, 0, 1, 0, 1, 2], [1, 2, 3, 4, 5, 6]),
        # No punctuation at all: the first that there are.
        ([0, 0], [0, 0, 0], [0, 1, None]),
        ([0, 0, 0], [0, 0], [0, 1]),
        # Punctuation alone.
        ([1, 2], [1, 2, 2], [0, 1, None]),
        ([3, 1], [1], [1]),
    )
    for tags, words, expected in rows:
        assert align_tags(tags, words) == expected, (tags, words)


@given(KINDS, KINDS)
def test_the_first_of_all_ways_with_the_fewest_changes(tags, words):
    assert align_tags(tags, words) == slow_alignment(tuple(tags), tuple(words))


TRACED = tf.function(
    align_tags_in_graph,
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
    assert in_graph(pairs, more) == [align_tags(*pair) for pair in pairs]


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
    assert in_graph(pairs, 0) == [align_tags(*pair) for pair in pairs]
