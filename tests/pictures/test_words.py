"""Merging of subwords into words, compared with examples and a matrix product."""

import numpy as np

from t2t_keras.model.sentence_maps import AttentionMap
from t2t_keras.pictures.words import (
    is_punctuation,
    merge_sentence_words,
    merge_words,
    spell_word,
    word_starts,
)
from tests.pictures.random_maps import HOSTILE, random_maps


def test_word_starts() -> None:
    rows = (
        (["▁The", "▁app", "les", ".", "</s>"], [0, 1, 3, 4]),
        (["<s>", "▁Die", "▁Ä", "pfel"], [0, 1, 2]),
        # The decoder may start with a piece without a space mark.
        (["<s>", "les", "▁a"], [0, 1, 2]),
        (["les", "▁a"], [0, 1]),
        (["▁don", "'", "t", "▁go"], [0, 3]),
        (["▁(", "app", "les", ")", ".", "▁so"], [0, 1, 3, 4, 5]),
        (["▁", "(", "app", "les", ")"], [0, 2, 4]),
        (["▁", "<0xF0>", "<0x9F>", "</s>"], [0, 3]),
        (["▁...", "▁", "▁", "a"], [0, 1, 2]),
        (["▁", "."], [0]),
        (["."], [0]),
    )
    for pieces, starts in rows:
        assert word_starts(pieces) == starts, pieces


def membership(starts: list[int], pieces: int) -> np.ndarray:
    """Returns [words, pieces] float64: 1 where a piece belongs to a word, else 0."""
    words = np.searchsorted(starts, np.arange(pieces), side="right") - 1
    return (np.arange(len(starts))[:, None] == words).astype("float64")


def test_queries_are_averaged_and_keys_summed() -> None:
    for kind in ("encoder", "decoder", "memory"):
        attention = getattr(random_maps(), kind)
        merged = merge_words(attention)
        queries = membership(word_starts(attention.queries), len(attention.queries))
        keys = membership(word_starts(attention.keys), len(attention.keys))
        expected = np.einsum(
            "qi,rhij,kj->rhqk",
            queries / queries.sum(1, keepdims=True),
            attention.weights.astype("float64"),
            keys,
        )
        assert merged.weights.shape != attention.weights.shape, kind
        np.testing.assert_allclose(merged.weights, expected, atol=1e-6, err_msg=kind)
        sums = merged.weights.sum(-1)
        np.testing.assert_allclose(sums, 1.0, atol=1e-5, err_msg=kind)
        assert merged.weights.dtype == attention.weights.dtype, kind


def test_words_are_spelled() -> None:
    maps = merge_sentence_words(random_maps())
    assert maps.encoder.queries == ("The", "apples", "fell", ".", "</s>")
    assert maps.memory.queries == ("Die", "Äpfel", "fielen", ".", "</s>")
    assert maps.decoder.keys == ("<s>", "Die", "Äpfel", "fielen", ".")


def test_maps_without_subwords_stay_bit_equal() -> None:
    weights = random_maps().encoder.weights
    attention = AttentionMap(
        tuple("abcdef"), ("▁a", "▁b", "▁c", "▁d", ".", "!"), weights
    )
    merged = merge_words(attention._replace(queries=attention.keys))
    np.testing.assert_array_equal(merged.weights, weights)
    assert merged.queries == ("a", "b", "c", "d", ".", "!")


def test_hostile_pieces_keep_their_letters() -> None:
    merged = merge_sentence_words(random_maps(HOSTILE, HOSTILE)).encoder
    np.testing.assert_allclose(merged.weights.sum(-1), 1.0, atol=1e-5)
    assert "".join(merged.keys) == (
        "".join(HOSTILE).replace("<0xF0><0x9F><0x98><0x80>", "😀").replace("▁", "")
    )
    assert merged.keys[14:16] == ("😀", "😀")


def test_spell_word() -> None:
    rows = (
        (["▁app", "les"], "apples"),
        (["▁", "<0xC3>", "<0x84>", "pfel"], "Äpfel"),
        (["<0xC3>"], "\ufffd"),
        (["▁"], "▁"),
        (["▁<0xZZ>"], "<0xZZ>"),
    )
    for pieces, text in rows:
        assert spell_word(pieces) == text, pieces


PUNCTUATION = (
    *((piece, True) for piece in (".", "▁?!", "€", "。")),
    *((piece, False) for piece in ("▁", "a.", "", "</s>", "<s>", "<0x2E>")),
)


def test_is_punctuation() -> None:
    for piece, is_one in PUNCTUATION:
        assert is_punctuation(piece) is is_one, repr(piece)
