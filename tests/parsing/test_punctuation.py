from types import MappingProxyType

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.tag_matching import (
    OWN_TAGS,
    tag_kind,
    tag_kinds_in_graph,
    word_kind,
    word_kinds_in_graph,
)

# From the Treebank's tagging guidelines.
MARKS = MappingProxyType(
    {
        ".": ". ? !",
        ",": ",",
        ":": ": ; - -- --- .. ... ....",
        "``": "` ``",
        "''": "''",
        "-LRB-": "-LRB- -LCB- -LSB-",
        "-RRB-": "-RRB- -RCB- -RSB-",
    }
)
# Possessives, contractions, signs that are read aloud, and words that contain a mark.
NO_MARKS = (
    "' 's n't % $ # & US$ / * dog Inc. 1.5 1,000 10:30 --a a- .a ?! ,, ;; -LRB-- "
    "-NONE- ( ) -LAB- ``` ''' \" … —"
)


WORDS_AND_TAGS = (
    *((word, tag) for tag, words in MARKS.items() for word in words.split()),
    *((word, "NN") for word in ("", *NO_MARKS.split())),
)


def test_kinds_of_words():
    for word, tag in WORDS_AND_TAGS:
        assert OWN_TAGS[word_kind(word)] == tag, repr(word)
        in_graph = word_kinds_in_graph(tf.constant([word]))
        assert in_graph == [OWN_TAGS.index(tag)], repr(word)


def test_kinds_of_tags():
    for tag in (*MARKS, "NN", "DT", "POS", "$", "#", "", "-NONE-"):
        assert OWN_TAGS[tag_kind(tag)] == (tag if tag in MARKS else "NN"), repr(tag)
        in_graph = tag_kinds_in_graph(tf.constant([[tag]]))
        assert in_graph == [[tag_kind(tag)]], repr(tag)


@given(st.lists(st.text(alphabet=".,:;-`'?!LRCSB\n a", max_size=5), max_size=9))
def test_the_graph_agrees_with_python(words):
    kinds = word_kinds_in_graph(tf.constant(words, tf.string))
    assert kinds.dtype == tf.int32
    assert kinds.numpy().tolist() == [word_kind(word) for word in words]
