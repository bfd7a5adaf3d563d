"""Word alignment from the attention of subwords."""

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.server.translation_api.attention_links import (
    align_in_order,
    align_words,
    find_words,
)
from t2t_keras.serving.client.translation_client import CrossAttention


def words(text):
    return [text[start:end] for start, end in find_words(text)]


def test_words_and_marks():
    for text, expected in (
        ("The dog's re-used, (it) 3.5!", "The|dog's|re-used|,|(|it|)|3|.|5|!"),
        ("„Größe“ + no\u0301s", "„|Größe|“|+|no|\u0301|s"),
        ("狗在 abc睡", "狗|在|abc|睡"),
        ("", ""),
        ("🙂a", "🙂|a"),
    ):
        assert "|".join(words(text)) == expected


def attention(source, target, weights):
    return CrossAttention(tuple(source.split()), tuple(target.split()), weights)


def test_weights_of_words_from_those_of_subwords():
    generator = np.random.default_rng(4)
    weights = generator.random((1, 2, 5, 4))
    aligned = align_words(
        "ab c.",
        "xyz  w!",
        attention("▁a b ▁c. </s>", "▁xy z ▁w ! </s>", weights.tolist()),
    )
    assert aligned is not None
    mean = weights[0].mean(axis=0)
    # "c" and "." share a subword equally; "xyz" is the mean of two.
    rows = [(mean[0] * 2 / 3 + mean[1] / 1) / (2 / 3 + 1), mean[2], mean[3]]
    rows[0] = mean[:2].mean(axis=0)
    expected = [[row[0] + row[1], row[2] / 2, row[2] / 2] for row in rows]
    np.testing.assert_allclose(aligned.weights_JI, expected, rtol=1e-12)
    assert aligned.links == [int(np.argmax(row)) for row in expected]


def test_heads_by_default_and_by_name():
    generator = np.random.default_rng(5)
    weights = generator.random((6, 2, 2, 2))

    def first(heads, layers=6):
        aligned = align_words(
            "a", "b", attention("▁a </s>", "▁b </s>", weights[:layers].tolist()), heads
        )
        return aligned.weights_JI[0, 0]

    # The last layer of a shallow decoder, the last but one of a deep one.
    for layers, layer in ((6, 4), (5, 3), (4, 3), (2, 1), (1, 0)):
        expected = weights[layer, :, 0, 0].mean()
        assert first("", layers) == pytest.approx(expected), layers
    assert first("3:2") == pytest.approx(weights[2, 1, 0, 0])
    with pytest.raises(UserError, match="names a head that the model lacks"):
        first("7")


def test_bytes_and_unknown_words():
    weights = np.eye(5)[None, None].tolist()
    # Three bytes of one character, and a subword for an unknown word of other length.
    aligned = align_words(
        "狗 b",
        "longer b",
        CrossAttention(
            ("<0xE7>", "<0x8B>", "<0x97>", "▁b", "</s>"),
            ("▁", "?", "▁", "b", "</s>"),
            weights,
        ),
    )
    assert aligned.weights_JI.shape == (2, 2)
    assert aligned.weights_JI[1, 1] == 1.0


def test_no_alignment_of_what_was_cut():
    weights = np.ones((1, 1, 2, 2)).tolist()
    cut = CrossAttention(("▁a", "</s>"), ("▁b", "</s>"), weights, truncated=True)
    assert align_words("a", "b", cut) is None
    assert align_words("a", "b", CrossAttention((), (), [])) is None


def test_alignment_in_order():
    assert align_in_order("a b c d", "x y").links == [1, 3]
    assert align_in_order("a b", "w x y z").links == [0, 0, 1, 1]
    assert align_in_order("", "x").links == []
    assert align_in_order("a", "").links == []
