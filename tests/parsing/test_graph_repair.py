import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.graph_repair import (
    repair_trees_in_graph,
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
