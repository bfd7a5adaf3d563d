import sys
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.text.normalization import normalize, normalize_in_graph

# Bytes near the edges of UTF-8, where decoders often disagree.
TRICKY = st.lists(
    st.sampled_from(
        b"\x00\x09\x20\x41\x80\x85\x96\x9f\xa0\xa8\xbf\xc0"
        b"\xc2\xe0\xe1\xe2\xed\xef\xf0\xf4\xf5\xfe\xff"
    ),
    max_size=9,
).map(bytes)


def in_graph(text: bytes) -> str:
    return normalize_in_graph(tf.constant([text])).numpy()[0].decode("utf-8")


@given(st.binary(max_size=40) | TRICKY)
def test_graph_agrees_with_python_on_any_bytes(text):
    assert in_graph(text) == normalize(text)


@pytest.mark.slow
def test_white_space_is_what_unicode_and_python_say():
    """Of all characters, in the graph and in Python."""
    characters = [
        chr(point) for point in range(sys.maxunicode) if not 0xD800 <= point < 0xE000
    ]
    texts = [f"x{character}y" for character in characters]
    results = normalize_in_graph(tf.constant([text.encode() for text in texts]))
    for character, text, result in zip(characters, texts, results.numpy(), strict=True):
        is_space = (
            character.isspace()
            or unicodedata.category(character) in ("Zs", "Zl", "Zp")
            or character == "\u2581"
        )
        expected = "x y" if is_space else text
        assert normalize(text) == result.decode() == expected


@given(st.text(max_size=40) | st.binary(max_size=40))
def test_the_result_is_one_line_and_stable(text):
    once = normalize(text)
    assert normalize(once) == once
    assert len(once.splitlines()) <= 1
    assert once == " ".join(once.split())


NORMALIZED_BY_HAND = (
    ("", ""),
    ("\u3000 \r\n", ""),
    (" a\r\n\tb\u2028\u2029c\x85d ", "a b c d"),
    ("one\u2581two\u2581\u2581three", "one two three"),
    ("a\x00b", "a\x00b"),
    ("ﬁ ½ \uff21 e\u0301 …", "ﬁ ½ \uff21 e\u0301 …"),
    ("\ufeffa\u200bb\u200dc", "\ufeffa\u200bb\u200dc"),
    (b"a\xffb", "a\ufffdb"),
    (b"\xf0\x9f\x98", "\ufffd"),
    (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ("\ud800", "\ufffd\ufffd\ufffd"),
)


def test_examples():
    for text, expected in NORMALIZED_BY_HAND:
        assert normalize(text) == expected, repr(text)
        is_text = isinstance(text, str)
        encoded = text.encode("utf-8", "surrogatepass") if is_text else text
        assert in_graph(encoded) == expected, repr(text)


def test_any_shape_and_no_texts_at_all():
    nested = normalize_in_graph(tf.constant([[" a "], ["b\tb"]]))
    assert nested.numpy().tolist() == [[b"a"], [b"b b"]]
    assert normalize_in_graph(tf.zeros([0], tf.string)).shape == (0,)
