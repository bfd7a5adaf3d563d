"""Truncation of texts to limits, equal in Python and in the graph."""

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.text.normalization import normalize
from t2t_keras.text.reading import TextReader
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID

TEXTS = st.text(st.sampled_from("ab  \t漢Жü🙂\x00\u2028"), max_size=30) | st.binary(
    max_size=20
)


@given(texts=st.lists(TEXTS, max_size=4), data=st.data())
def test_graph_and_python_read_alike(vocabulary, texts, data):
    tokens = data.draw(st.integers(1, 12))
    characters = data.draw(st.none() | st.integers(1, 15))
    reader = TextReader(vocabulary, tokens, characters)
    texts = [t if isinstance(t, bytes) else t.encode() for t in texts]
    found = reader.read_in_graph(tf.constant(texts, tf.string, [len(texts)]))
    expected = [reader.read(text) for text in texts]
    assert found.ids.dtype == found.lengths.dtype == tf.int32
    assert found.truncated.numpy().tolist() == [cut for _, cut in expected]
    assert found.lengths.numpy().tolist() == [len(ids) for ids, _ in expected]
    width = max((len(ids) for ids, _ in expected), default=1)
    padded = [ids + [PAD_ID] * (width - len(ids)) for ids, _ in expected]
    assert found.ids.shape == (len(texts), width)
    assert found.ids.numpy().tolist() == padded


def test_a_truncated_text_ends_in_eos(vocabulary):
    whole = vocabulary.encode("the old house and the tree")
    length = len(whole)
    assert TextReader(vocabulary, length).read("the old house and the tree") == (
        whole,
        False,
    )
    short = TextReader(vocabulary, length - 1).read("the old house and the tree")
    assert short == ([*whole[: length - 2], EOS_ID], True)
    assert TextReader(vocabulary, 1).read("the") == ([EOS_ID], True)
    assert TextReader(vocabulary, 1).read(" \t ") == ([EOS_ID], False)


def test_characters_are_counted_after_normalizing(vocabulary):
    reader = TextReader(vocabulary, 99, max_characters=4)
    assert reader.read("the   ") == (vocabulary.encode("the"), False)
    assert reader.read("the\t\t\tü") == (vocabulary.encode("the"), True)
    assert reader.read("üüüü") == (vocabulary.encode("üüüü"), False)
    assert reader.read("üüüüa") == (vocabulary.encode("üüüü"), True)
    texts = ["the\t\t\tü", "üüüüa", ""]
    beginnings = ["the ", "üüüü", ""]
    assert [reader.truncate(text) for text in texts] == beginnings
    in_graph = reader.truncate_in_graph(tf.constant(texts)).numpy()
    assert [text.decode() for text in in_graph] == beginnings


@given(text=st.text(st.sampled_from("theold housng über"), min_size=60, max_size=120))
def test_the_default_cuts_nothing_that_tokens_would_not(vocabulary, text):
    """A text with too many characters has too many tokens; the first ones agree."""
    reader = TextReader(vocabulary, 6)
    whole = vocabulary.encode(text)
    ids, truncated = reader.read(text)
    assert truncated == (len(whole) > 6)
    if len(normalize(text)) <= reader.max_characters:
        assert ids == (whole if len(whole) <= 6 else [*whole[:5], EOS_ID])


def test_limits_below_one_are_refused(vocabulary):
    with pytest.raises(ValueError, match=r"at least 1\. Received: 0 and 9"):
        TextReader(vocabulary, 0, 9)
    with pytest.raises(ValueError, match=r"at least 1\. Received: 9 and 0"):
        TextReader(vocabulary, 9, 0)
