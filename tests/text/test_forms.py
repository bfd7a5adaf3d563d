import tensorflow as tf

from t2t_keras.text.reading import PlainTextAdapter


def test_plain_text_stays_as_it_is():
    form = PlainTextAdapter()
    assert form.source(b" a\xff") == b" a\xff"
    assert form.answer("a", "(S b") == "(S b"
    lines, targets = tf.constant(["a "]), tf.constant([["(b", "c"]])
    assert form.source_in_graph(lines) is lines
    assert form.answer_in_graph(lines, targets) is targets
