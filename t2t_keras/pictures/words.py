"""Subword merging: attention maps of words from maps of subwords.

Shapes: R layers, H heads, Q queries, C keys.
"""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from t2t_keras.model.sentence_maps import BEGIN, AttentionMap, SentenceMaps

# SentencePiece's sign for a space, its end of a sentence, and a byte of a character
# that the vocabulary does not have.
SPACE = "\u2581"
END = "</s>"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def merge_sentence_words(maps: SentenceMaps) -> SentenceMaps:
    """Returns all three kinds with words in place of subwords: see `merge_words`."""
    return SentenceMaps(*map(merge_words, maps))


def merge_words(attention: AttentionMap) -> AttentionMap:
    """Returns a map of words: how much a word attends to a word.

    A query's weights are the mean over its subwords, a key's the sum over its subwords.
    So the weights of a query still add up to 1.
    """
    queries, keys = (word_starts(side) for side in attention[:2])
    weights = np.add.reduceat(attention.weights, keys, axis=3)
    weights = np.add.reduceat(weights, queries, axis=2)
    sizes_Q = np.diff([*queries, len(attention.queries)])
    return AttentionMap(
        _texts(attention.queries, queries),
        _texts(attention.keys, keys),
        (weights / sizes_Q[:, None]).astype(attention.weights.dtype),
    )


def word_starts(pieces: Sequence[str]) -> list[int]:
    """Returns the index of the first piece of each word.

    A word begins after a space. Punctuation before and after it is a word of its own;
    punctuation within it ("don't") is not. Begin and end of a sentence are words.
    """
    starts = [
        index
        for index, piece in enumerate(pieces)
        if index == 0
        or piece.startswith(SPACE)
        or _is_mark(piece)
        or _is_mark(pieces[index - 1])
    ]
    ends = [*starts[1:], len(pieces)]
    return [
        index
        for start, end in zip(starts, ends, strict=True)
        for index in _without_punctuation(pieces, start, end)
    ]


def is_punctuation(piece: str) -> bool:
    """Returns whether a piece has only punctuation marks and symbols."""
    text = piece.removeprefix(SPACE)
    return bool(text) and all(unicodedata.category(c)[0] in "PS" for c in text)


def _is_mark(piece: str) -> bool:
    return piece in (BEGIN, END)


def _without_punctuation(pieces: Sequence[str], start: int, end: int) -> list[int]:
    """Returns the starts of words between two spaces."""
    if pieces[start] == SPACE and end - start > 1:
        # A space of its own belongs to the next piece.
        return [start, *_without_punctuation(pieces, start + 1, end)[1:]]
    first, last = start, end
    while first < end and is_punctuation(pieces[first]):
        first += 1
    while last > first and is_punctuation(pieces[last - 1]):
        last -= 1
    inner = [first] if first < last else []
    return [*range(start, first), *inner, *range(last, end)]


def _texts(pieces: Sequence[str], starts: Sequence[int]) -> tuple[str, ...]:
    ends = [*starts[1:], len(pieces)]
    return tuple(
        spell_word(pieces[start:end]) for start, end in zip(starts, ends, strict=True)
    )


def spell_word(pieces: Sequence[str]) -> str:
    """Returns the text of the pieces of a word, without spaces.

    A single space piece keeps its sign.
    """
    text = _decode_pieces(pieces)
    return text.replace(SPACE, "") or text


def join_pieces(pieces: Sequence[str]) -> str:
    """Returns the text of the pieces of a sentence, without its begin and end."""
    words = [piece for piece in pieces if not _is_mark(piece)]
    return _decode_pieces(words).replace(SPACE, " ").strip()


def _decode_pieces(pieces: Sequence[str]) -> str:
    """Returns the text of pieces, with bytes decoded to characters."""
    parts = (
        bytes.fromhex(byte[1]) if (byte := _BYTE.fullmatch(piece)) else piece.encode()
        for piece in pieces
    )
    return b"".join(parts).decode(errors="replace")
