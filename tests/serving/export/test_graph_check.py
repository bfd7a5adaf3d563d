"""Checks of an exported graph for ops and settings that a server refuses."""

import pytest
import tensorflow as tf
import tensorflow_text

from t2t_keras.errors import UserError
from t2t_keras.serving.export.validation import (
    TOKENIZER_OPS,
    check_graph,
    list_ops,
    list_signatures,
    read_meta_graph,
)
from t2t_keras.text.graph_tokenizer import GraphTokenizer

TEXT = tf.TensorSpec([None], tf.string, name="text")


def save_model(directory, function, **attributes):
    """Saves a SavedModel of one function, with objects on its root."""
    module = tf.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    module.call = tf.function(function, input_signature=[TEXT], autograph=False)
    tf.saved_model.save(module, str(directory), signatures={"s": module.call})
    return directory


def check_refused(directory, message, **settings):
    with pytest.raises(UserError, match=message):
        check_graph(directory, **{"tokenizes": True, "xla": False, **settings})


def test_an_export_passes(exported):
    check_graph(exported, tokenizes=True, xla=False)
    used = list_ops(read_meta_graph(exported)) & TOKENIZER_OPS
    assert used == {"SentencepieceOp", "SentencepieceTokenizeOp"}
    assert "__saved_model_init_op" not in list_signatures(read_meta_graph(exported))
    check_refused(exported, "SentencepieceOp, SentencepieceTokenizeOp", tokenizes=False)


def test_python_is_refused(tmp_path):
    """It would work here, because the function is still in this process."""

    def by_python(text):
        return {"o": tf.py_function(lambda t: t, [text], tf.string)}

    check_refused(
        save_model(tmp_path, by_python), r"may not have: EagerPyFunc\. Allowed are"
    )


def test_python_is_refused_in_a_nested_loop(tmp_path):
    def one(text):
        return tf.py_function(lambda t: 1, [text], tf.int32)

    def deep(text):
        def inner(count):
            return tf.while_loop(
                lambda n: n < 3, lambda n: [tf.ensure_shape(n + one(text), [])], [count]
            )

        return {"o": tf.while_loop(lambda n: n < 3, inner, [0])[0] + tf.size(text)}

    directory = save_model(tmp_path, deep)
    listed = read_meta_graph(directory).meta_info_def.stripped_op_list.op
    assert "EagerPyFunc" not in {op.name for op in listed}
    check_refused(directory, r"may not have: EagerPyFunc\.")


def test_other_ops_of_tensorflow_text_are_refused(tmp_path):
    def folded(text):
        return {"o": tensorflow_text.case_fold_utf8(text)}

    check_refused(save_model(tmp_path, folded), r"may not have: CaseFoldUTF8\.")


def test_xla_is_refused_unless_requested(tmp_path):
    inner = tf.function(lambda x: x * 2, jit_compile=True, autograph=False)

    def compiled(text):
        return {"o": inner(tf.strings.length(text))}

    directory = save_model(tmp_path, compiled)
    check_refused(directory, "XLA must compile, which a stock server refuses: .*lambda")
    check_graph(directory, tokenizes=True, xla=True)


def test_two_tokenizers_are_refused(tmp_path, vocabulary):
    one = GraphTokenizer(vocabulary.model_proto)
    other = tensorflow_text.SentencepieceTokenizer(vocabulary.model_proto, add_eos=True)

    def twice(text):
        return {
            "o": one.tokenize(text).to_tensor(),
            "p": other.tokenize(text).to_tensor(),
        }

    directory = save_model(tmp_path, twice, one=one, other=other)
    check_refused(directory, "loads 2 tokenizers of 1 models, but each model may")
