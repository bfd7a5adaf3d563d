import functools
import itertools

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.tag_matching import align_tags, align_tags_in_graph

KINDS = st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), max_size=9)


def slow_alignment(tags, words):
    """Returns the first of all alignments in order of (changes, spelling).

    An alignment is spelled in a (a word gets the next tag), b (a tag is skipped) and c
    (a word is skipped).
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
    alignment = []
    for move in best(0, 0)[1]:
        tag = next(numbers) if move in "ab" else None
        if move in "ac":
            alignment.append(tag)
    return alignment


def test_examples():
    rows = (
        ([], [], []),
        ([], [0, 1], [None, None]),
        ([0, 1], [], []),
        # Equal numbers: aligned in order, for any kinds.
        ([1, 0, 2], [0, 2, 1], [0, 1, 2]),
        # The dog barks , she said . - a missing tag before the comma, after it, and the
        # comma's own.
        ([0, 0, 2, 0, 0, 1], [0, 0, 0, 2, 0, 0, 1], [0, 1, None, 2, 3, 4, 5]),
        ([0, 0, 0, 2, 0, 1], [0, 0, 0, 2, 0, 0, 1], [0, 1, 2, 3, 4, None, 5]),
        ([0, 0, 0, 0, 0, 1], [0, 0, 0, 2, 0, 0, 1], [0, 1, 2, None, 3, 4, 5]),
        # One tag too many: a comma, and another tag.
        ([0, 2, 0, 0, 2, 0, 1], [0, 0, 0, 2, 0, 1], [0, 2, 3, 4, 5, 6]),
        ([0, 0, 0, 2, 0, 1], [0, 0, 2, 0, 1], [0, 1, 3, 4, 5]),
        # The tag of the first of two commas is missing, which aligning the first or the
        # last matching commas would not show.
        ([0, 0, 0, 0, 2, 0, 1], [0, 2, 0, 0, 0, 2, 0, 1], [0, None, 1, 2, 3, 4, 5, 6]),
        # A comma tagged as a noun, and a tag too many.
        ([0, 0, 0, 0, 1], [0, 2, 0, 1], [0, 1, 2, 4]),
        # Skipping a tag and skipping a word cost the same; here a tag is skipped.
        ([0, 1, 0, 1, 0, 2, 3], [1, 0, 1, 0, 1, 2], [1, 2, 3, 4, 5, 6]),
        # No punctuation: the first ones are aligned.
        ([0, 0], [0, 0, 0], [0, 1, None]),
        ([0, 0, 0], [0, 0], [0, 1]),
        # Only punctuation.
        ([1, 2], [1, 2, 2], [0, 1, None]),
        ([3, 1], [1], [1]),
    )
    for tags, words, expected in rows:
        assert align_tags(tags, words) == expected, (tags, words)


@given(KINDS, KINDS)
def test_it_is_the_first_alignment_with_the_fewest_changes(tags, words):
    assert align_tags(tags, words) == slow_alignment(tuple(tags), tuple(words))


TRACED = tf.function(
    align_tags_in_graph,
    input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2
    + [tf.TensorSpec([None], tf.int32)] * 2,
    autograph=False,
)


def pad_rows(rows: list[list[int]], extra: int) -> np.ndarray:
    """Returns rows padded with values that must not matter."""
    width = max(map(len, rows), default=0) + extra
    return np.array(
        [[*row, *(i % 4 for i in range(width - len(row)))] for row in rows], np.int32
    ).reshape(len(rows), width)


def align_in_graph(pairs: list[tuple[list[int], list[int]]], extra: int):
    tags, words = ([pair[side] for pair in pairs] for side in (0, 1))
    alignments = TRACED(
        pad_rows(tags, extra),
        pad_rows(words, extra),
        np.array([len(row) for row in tags], np.int32),
        np.array([len(row) for row in words], np.int32),
    ).numpy()
    padding = [row[len(pair[1]) :] for row, pair in zip(alignments, pairs, strict=True)]
    assert all((row == -1).all() for row in padding)
    return [
        [None if tag < 0 else tag for tag in row[: len(pair[1])].tolist()]
        for row, pair in zip(alignments, pairs, strict=True)
    ]


@given(st.lists(st.tuples(KINDS, KINDS), max_size=7), st.integers(0, 2))
def test_the_graph_aligns_as_python_does(pairs, extra):
    assert align_in_graph(pairs, extra) == [align_tags(*pair) for pair in pairs]


def test_long_and_short_sentences_in_a_batch():
    rng = np.random.default_rng(7)
    pairs = [
        (
            rng.choice(4, size=tags, p=[0.7, 0.1, 0.1, 0.1]).tolist(),
            rng.choice(4, size=words, p=[0.7, 0.1, 0.1, 0.1]).tolist(),
        )
        for tags, words in [(90, 61), (0, 70), (3, 2), (61, 90), (90, 90), (44, 0)]
    ]
    assert align_in_graph(pairs, 0) == [align_tags(*pair) for pair in pairs]
