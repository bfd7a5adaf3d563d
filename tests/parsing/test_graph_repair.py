import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.graph_repair import repaired_in_graph
from t2t_keras.parsing.linearization import linearized, repaired, words_of
from t2t_keras.text.normalization import normalize
from tests.parsing.random_trees import TREES, deep_tree
from tests.parsing.test_linearization import JUNK, SENTENCES, damaged

TRACED = tf.function(
    repaired_in_graph, input_signature=[tf.TensorSpec([None], tf.string)] * 2
)


def in_graph(pairs: list[tuple[str, list[str]]]) -> list[str]:
    symbols = tf.constant([symbols for symbols, _ in pairs], tf.string)
    sentences = tf.constant([" ".join(words) for _, words in pairs], tf.string)
    return [tree.decode() for tree in TRACED(symbols, sentences).numpy()]


def in_python(pairs: list[tuple[str, list[str]]]) -> list[str]:
    return [str(repaired(symbols, words)) if words else "" for symbols, words in pairs]


@given(st.lists(st.tuples(JUNK, SENTENCES) | damaged(), min_size=1, max_size=9))
def test_any_symbols_become_the_same_tree(pairs):
    assert in_graph(pairs) == in_python(pairs)


@given(st.lists(st.tuples(st.text(max_size=30).map(normalize), SENTENCES), min_size=1))
def test_any_text_becomes_the_same_tree(pairs):
    assert in_graph(pairs) == in_python(pairs)


@given(st.lists(TREES, min_size=1, max_size=4))
def test_trees_come_back(trees):
    pairs = [(linearized(tree), words_of(tree)) for tree in trees]
    assert in_graph(pairs) == [str(tree) for tree in trees]


def test_deep_trees_and_long_runs():
    tree = deep_tree(1_000)
    words = words_of(tree)
    pairs = [
        (linearized(tree), words),
        ("(A " * 700 + "NN", ["a"]),
        ("NN " * 300 + ")A " * 400 + "(B " * 5 + "DT", words),
        (")A " * 400, ["a", "b"]),
        ("", []),
    ]
    assert in_graph(pairs) == in_python(pairs)


def test_no_sentences_at_all():
    assert in_graph([]) == []
