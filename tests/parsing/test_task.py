import pytest
import tensorflow as tf

from t2t_keras.parsing.task import ParserTextAdapter

LINES = ("The dog  doesn't sleep.", "", " \t", "a (b) c", "Nothing , here")


@pytest.mark.parametrize("splits", [True, False])
def test_the_graph_agrees_with_python(splits):
    adapter = ParserTextAdapter(splits=splits)
    sources = [adapter.source(line) for line in LINES]
    in_graph = adapter.source_in_graph(tf.constant(LINES))
    assert [source.decode() for source in in_graph.numpy()] == sources
    targets = [
        [f"(S (NP DT {n} )NP" + " VB" * n + " )S" for n in range(row, row + 3)]
        for row in range(len(LINES))
    ]
    trees = adapter.answer_in_graph(in_graph, tf.constant(targets))
    assert [[tree.decode() for tree in row] for row in trees.numpy()] == [
        [adapter.answer(source, target) for target in row]
        for source, row in zip(sources, targets, strict=True)
    ]


def test_raw_text_is_split_and_treebank_text_is_not():
    symbols = "(S NN (VP VBZ RB )VP"
    raw, split = (ParserTextAdapter(splits=splits) for splits in (True, False))
    assert raw.source(b"It isn't Inc.") == "It is n't Inc ."
    assert split.source(b"It isn't  Inc.") == "It isn't Inc."
    assert (
        raw.answer(raw.source("It isn't."), symbols)
        == "(S (NN It) (VP (VBZ is) (RB n't)) (. .))"
    )
    assert split.answer("It isn't.", symbols) == "(S (NN It) (VP (VBZ isn't.)))"
    assert raw.answer("", symbols) == ""
