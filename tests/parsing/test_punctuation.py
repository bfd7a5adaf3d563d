from types import MappingProxyType

import pytest
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


@pytest.mark.parametrize(
    ("word", "tag"),
    [(word, tag) for tag, words in MARKS.items() for word in words.split()]
    + [(word, "NN") for word in ["", *NO_MARKS.split()]],
)
def test_which_words_are_marks(word, tag):
    assert OWN_TAGS[kind_of_word(word)] == tag
    assert kinds_of_words_in_graph(tf.constant([word])) == [OWN_TAGS.index(tag)]


@pytest.mark.parametrize("tag", [*MARKS, "NN", "DT", "POS", "$", "#", "", "-NONE-"])
def test_kinds_of_parts_of_speech(tag):
    assert OWN_TAGS[kind_of_tag(tag)] == (tag if tag in MARKS else "NN")
    assert kinds_of_tags_in_graph(tf.constant([[tag]])) == [[kind_of_tag(tag)]]


@given(st.lists(st.text(alphabet=".,:;-`'?!LRCSB\n a", max_size=5), max_size=9))
def test_in_the_graph_as_in_python(words):
    kinds = kinds_of_words_in_graph(tf.constant(words, tf.string))
    assert kinds.dtype == tf.int32
    assert kinds.numpy().tolist() == [kind_of_word(word) for word in words]
