from types import MappingProxyType

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.punctuation import (
    OWN_TAGS,
    kind_of_tag,
    kind_of_word,
    kinds_of_tags_in_graph,
    kinds_of_words_in_graph,
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
# The possessive, contractions, signs that are read aloud, and words that hold a mark.
NO_MARKS = (
    "' 's n't % $ # & US$ / * dog Inc. 1.5 1,000 10:30 --a a- .a ?! ,, ;; -LRB-- "
    "-NONE- ( ) -LAB- ``` ''' \" … —"
)


WORDS_AND_TAGS = (
    *((word, tag) for tag, words in MARKS.items() for word in words.split()),
    *((word, "NN") for word in ("", *NO_MARKS.split())),
)


def test_which_words_are_marks():
    for word, tag in WORDS_AND_TAGS:
        assert OWN_TAGS[kind_of_word(word)] == tag, repr(word)
        in_graph = kinds_of_words_in_graph(tf.constant([word]))
        assert in_graph == [OWN_TAGS.index(tag)], repr(word)


def test_kinds_of_parts_of_speech():
    for tag in (*MARKS, "NN", "DT", "POS", "$", "#", "", "-NONE-"):
        assert OWN_TAGS[kind_of_tag(tag)] == (tag if tag in MARKS else "NN"), repr(tag)
        in_graph = kinds_of_tags_in_graph(tf.constant([[tag]]))
        assert in_graph == [[kind_of_tag(tag)]], repr(tag)


@given(st.lists(st.text(alphabet=".,:;-`'?!LRCSB\n a", max_size=5), max_size=9))
def test_in_the_graph_as_in_python(words):
    kinds = kinds_of_words_in_graph(tf.constant(words, tf.string))
    assert kinds.dtype == tf.int32
    assert kinds.numpy().tolist() == [kind_of_word(word) for word in words]
