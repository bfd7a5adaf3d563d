import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.graph_repair import (
    brackets_over_words,
    read_symbols,
    running_minimum,
)

ROWS = (
    ("(S", "(NP", "DT", ")NP", ")S", ")S", "(VP", "VB"),
    ("(", ")", "V(B)", "(N)P", "", "", "", ""),
)


def test_what_symbols_are():
    read = read_symbols(tf.constant(ROWS))
    assert read.names.numpy()[1].tolist()[:4] == [b"X", b"", b"VB", b"NP"]
    assert read.names.numpy()[0, [0, 2, 6]].tolist() == [b"S", b"DT", b"VP"]
    assert read.is_open.numpy().astype(int).tolist() == [
        [1, 1, 0, 0, 0, 0, 1, 0],
        [1, 0, 0, 1, 0, 0, 0, 0],
    ]
    assert read.is_close.numpy().astype(int).tolist() == [
        [0, 0, 0, 1, 1, 1, 0, 0],
        [0, 1, 0, 0, 0, 0, 0, 0],
    ]
    assert read.is_tag.numpy().astype(int).tolist() == [
        [0, 0, 1, 0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0, 0, 0, 0],
    ]
    # A closing with nothing to close leaves 0, and counts no further.
    assert read.depth.numpy().tolist() == [
        [1, 2, 2, 1, 0, 0, 1, 1],
        [1, 0, 0, 1, 1, 1, 1, 1],
    ]


def test_which_brackets_have_words():
    # Two words in the first row, one in each constituent; the second row's only word
    # stands outside of both constituents.
    before = tf.constant([[0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1]])
    opens, closes = brackets_over_words(
        read_symbols(tf.constant(ROWS)), before, tf.constant([2, 1])
    )
    assert opens.counts.numpy().astype(int).tolist() == [
        [1, 1, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    # The third closing closes nothing.
    assert closes.counts.numpy().astype(int).tolist() == [
        [0, 0, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert opens.depth.numpy()[0, [0, 1, 6]].tolist() == [1, 2, 1]
    assert closes.depth.numpy()[0, [3, 4]].tolist() == [2, 1]
    assert opens.never_closed.numpy()[0, [0, 1, 6]].tolist() == [False, False, True]
    assert opens.never_closed.numpy()[1, [0, 3]].tolist() == [False, True]


@given(st.lists(st.integers(-9, 9), max_size=40))
def test_the_least_so_far(values):
    expected = [min([0, *values[: i + 1]]) for i in range(len(values))]
    found = running_minimum(tf.constant([values], tf.int32, shape=[1, len(values)]))
    assert found.numpy().tolist() == [expected]
