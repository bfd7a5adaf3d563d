"""Links by the attention of a server's model, without NumPy."""

import numpy as np

from t2t_keras.serving.client.protection import link_by_attention
from t2t_keras.serving.client.translation_client import CrossAttention
from t2t_keras.text.word_alignments import link_words
from t2t_keras.text.word_numbers import word_numbers


def test_links_are_those_of_the_heads_of_the_layer_that_aligns():
    sides = (
        ("\u2581the", "\u2581do", "g", "\u2581sleeps", "."),
        ("\u2581der", "\u2581H", "und"),
    )
    weights = np.random.default_rng(3).dirichlet(np.ones(6), size=(5, 2, 4))
    attention = CrossAttention(
        (*sides[0], "</s>"), (*sides[1], "</s>"), weights.tolist()
    )
    # Of five layers the last but one.
    expected = link_words(weights[3].mean(axis=0)[:-1, :-1], *map(word_numbers, sides))
    assert sorted(link_by_attention(attention)) == expected
    cut = CrossAttention(*sides, weights.tolist(), truncated=True)
    assert link_by_attention(cut) == []
