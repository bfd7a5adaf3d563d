import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.graph_repair import (
    brackets_over_words,
    read_symbols,
    repair_trees_in_graph,
    running_minimum,
)
from t2t_keras.parsing.linearization import linearize, repair_tree, tree_words
from t2t_keras.text.normalization import normalize
from tests.parsing.random_trees import TREES, deep_tree
from tests.parsing.test_linearization import JUNK, SENTENCES, damaged_symbols

TRACED = tf.function(
    repair_trees_in_graph,
    input_signature=[tf.TensorSpec([None], tf.string)] * 2,
    autograph=False,
)


def repair_in_graph(pairs: list[tuple[str, list[str]]]) -> list[str]:
    symbols = tf.constant([symbols for symbols, _ in pairs], tf.string)
    sentences = tf.constant([" ".join(words) for _, words in pairs], tf.string)
    return [tree.decode() for tree in TRACED(symbols, sentences).numpy()]


def repair_in_python(pairs: list[tuple[str, list[str]]]) -> list[str]:
    return [
        str(repair_tree(symbols, words)) if words else "" for symbols, words in pairs
    ]


@given(st.lists(st.tuples(JUNK, SENTENCES) | damaged_symbols(), min_size=1, max_size=9))
def test_any_symbols_become_the_same_tree(pairs):
    assert repair_in_graph(pairs) == repair_in_python(pairs)


@given(st.lists(st.tuples(st.text(max_size=30).map(normalize), SENTENCES), min_size=1))
def test_any_text_becomes_the_same_tree(pairs):
    assert repair_in_graph(pairs) == repair_in_python(pairs)


@given(st.lists(TREES, min_size=1, max_size=4))
def test_correct_trees_are_unchanged(trees):
    pairs = [(linearize(tree), tree_words(tree)) for tree in trees]
    assert repair_in_graph(pairs) == [str(tree) for tree in trees]


def test_deep_trees_and_long_runs():
    tree = deep_tree(1_000)
    words = tree_words(tree)
    pairs = [
        (linearize(tree), words),
        ("(A " * 700 + "NN", ["a"]),
        ("NN " * 300 + ")A " * 400 + "(B " * 5 + "DT", words),
        (")A " * 400, ["a", "b"]),
        ("", []),
    ]
    assert repair_in_graph(pairs) == repair_in_python(pairs)


def test_no_sentences():
    assert repair_in_graph([]) == []


ROWS = (
    ("(S", "(NP", "DT", ")NP", ")S", ")S", "(VP", "VB"),
    ("(", ")", "V(B)", "(N)P", "", "", "", ""),
)


def test_symbols_are_read():
    symbols = read_symbols(tf.constant(ROWS))
    assert symbols.names.numpy()[1].tolist()[:4] == [b"X", b"", b"VB", b"NP"]
    assert symbols.names.numpy()[0, [0, 2, 6]].tolist() == [b"S", b"DT", b"VP"]
    assert symbols.is_open.numpy().astype(int).tolist() == [
        [1, 1, 0, 0, 0, 0, 1, 0],
        [1, 0, 0, 1, 0, 0, 0, 0],
    ]
    assert symbols.is_close.numpy().astype(int).tolist() == [
        [0, 0, 0, 1, 1, 1, 0, 0],
        [0, 1, 0, 0, 0, 0, 0, 0],
    ]
    assert symbols.is_tag.numpy().astype(int).tolist() == [
        [0, 0, 1, 0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0, 0, 0, 0],
    ]
    # A closing bracket with nothing to close leaves the depth at 0.
    assert symbols.depth.numpy().tolist() == [
        [1, 2, 2, 1, 0, 0, 1, 1],
        [1, 0, 0, 1, 1, 1, 1, 1],
    ]


def test_only_brackets_with_words_count():
    # Two words in the first row, one in each constituent; the second row's only word
    # is outside of both constituents.
    before = tf.constant([[0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1]])
    opens, closes = brackets_over_words(
        read_symbols(tf.constant(ROWS)), before, tf.constant([2, 1])
    )
    assert opens.counts.numpy().astype(int).tolist() == [
        [1, 1, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    # The third closing bracket closes nothing.
    assert closes.counts.numpy().astype(int).tolist() == [
        [0, 0, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert opens.depth.numpy()[0, [0, 1, 6]].tolist() == [1, 2, 1]
    assert closes.depth.numpy()[0, [3, 4]].tolist() == [2, 1]
    assert opens.never_closed.numpy()[0, [0, 1, 6]].tolist() == [False, False, True]
    assert opens.never_closed.numpy()[1, [0, 3]].tolist() == [False, True]


@given(st.lists(st.integers(-9, 9), max_size=40))
def test_running_minimum(values):
    expected = [min([0, *values[: i + 1]]) for i in range(len(values))]
    minima = running_minimum(tf.constant([values], tf.int32, shape=[1, len(values)]))
    assert minima.numpy().tolist() == [expected]
