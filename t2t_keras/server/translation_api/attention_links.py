"""Word alignment of a sentence and its translation, from cross-attention.

Shapes: S and T subwords of source and target, I and J words.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t2t_keras.serving.client.translation_client import CrossAttention
from t2t_keras.text.protected_spans import SPACELESS, find_spans
from t2t_keras.text.word_alignments import head_shares
from t2t_keras.text.word_numbers import default_layer

# Letters and digits with apostrophes and hyphens among them; each other mark, and each
# character of a script without spaces, is a word of its own.
_WORD = re.compile(
    f"{SPACELESS}|(?:(?!{SPACELESS})\\w)+"
    "(?:['\u2019-](?:(?![\u3040-\u30ff\u3400-\u9fff])\\w)+)*"
    "|[^\\w\\s]"
)
_PIECE_SPACE = "\u2581"
_END = "</s>"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")

Span = tuple[int, int]


def find_words(text: str) -> list[Span]:
    """Returns start and end of each word of a sentence; white space is between them.

    A placeholder, tag or address is one word.

    >>> find_words("It's re-used!")
    [(0, 4), (5, 12), (12, 13)]
    """
    words, start = [], 0
    for first, last in [*find_spans(text), (len(text), len(text))]:
        words += [match.span() for match in _WORD.finditer(text, start, first)]
        words += [(first, last)] if first < last else []
        start = last
    return words


@dataclass(frozen=True)
class Alignment:
    """Attention of the words of a translation to those of its source.

    Attributes:
        source: Start and end of each source word.
        target: Start and end of each word of the translation.
        links: The source word of the most weight of each target word; none without
            source words.
        weights_JI: [J, I] float. Weights of a word add up to at most 1; what is missing
            is attention to the end of the sentence. None if the attention is not
            known: then a word attends to its link alone.
    """

    source: list[Span]
    target: list[Span]
    links: list[int]
    weights_JI: np.ndarray | None = None

    def weights_on(self, words: range) -> np.ndarray:
        """Returns the weight of each target word on some source words, [J] float."""
        if self.weights_JI is not None:
            return self.weights_JI[:, words.start : words.stop].sum(axis=1)
        return self.is_linked(words).astype(float)

    def shares_on(self, words: range) -> np.ndarray:
        """Returns the same as shares of each target word's weight on all words."""
        return self.weights_on(words) / self._totals_J

    def is_linked(self, words: range) -> np.ndarray:
        """Returns whether each target word is linked to one of some words, [J] bool."""
        return (self._links_J >= words.start) & (self._links_J < words.stop)

    @functools.cached_property
    def _links_J(self) -> np.ndarray:
        return np.array(self.links, int)

    @functools.cached_property
    def _totals_J(self) -> np.ndarray | float:
        if self.weights_JI is None:
            return 1.0
        return np.maximum(self.weights_JI.sum(axis=1), 1e-9)


def align_words(
    source: str, target: str, attention: CrossAttention, heads: str = ""
) -> Alignment | None:
    """Returns the alignment of a sentence pair, None if the attention was truncated.

    A source word has the sum of its subwords' weights; a target word the mean of its
    subwords'.

    Args:
        source: Source sentence.
        target: Its translation.
        attention: Attention of the pair.
        heads: Heads to average, as `LAYER:HEAD,...`. Default: all heads of
            `default_layer`.

    Raises:
        UserError: If the model does not have such heads.
    """
    if attention.truncated:
        return None
    weights_RHTS = np.asarray(attention.weights, np.float64)
    if weights_RHTS.ndim != 4 or not weights_RHTS.size:
        return None
    layers, num_heads = weights_RHTS.shape[:2]
    heads = heads or str(default_layer(layers))
    weights_TS = np.einsum(
        "rh,rhts->ts", head_shares(heads, layers, num_heads), weights_RHTS
    )
    source_words, target_words = find_words(source), find_words(target)
    shares_IS = _shares(source, source_words, attention.source_tokens)
    shares_JT = _shares(target, target_words, attention.target_tokens)
    sizes_J1 = np.maximum(shares_JT.sum(axis=1, keepdims=True), 1e-9)
    weights_JI = shares_JT @ weights_TS @ shares_IS.T / sizes_J1
    links = weights_JI.argmax(axis=1).tolist() if source_words else []
    return Alignment(source_words, target_words, links, weights_JI)


def align_in_order(source: str, target: str) -> Alignment:
    """Returns the alignment of words at the same part of their sentences.

    For sentences without attention, which may be of any length: memory is in proportion
    to it.
    """
    source_words, target_words = find_words(source), find_words(target)
    links = []
    for number in range(len(target_words) if source_words else 0):
        place = (number + 0.5) / len(target_words)
        links.append(int(place * len(source_words)))
    return Alignment(source_words, target_words, links)


def _shares(text: str, words: Sequence[Span], tokens: Sequence[str]) -> np.ndarray:
    """Returns which part of each subword belongs to each word, [words, subwords].

    Words and subwords are compared by their characters without white space. If those
    differ, as after a token for unknown words, their places are taken in proportion.
    """
    lengths = [len(_characters(token)) for token in tokens]
    # Offset of each character of the text among those that are not white space.
    offsets = np.cumsum([0, *(not each.isspace() for each in text)])
    total = sum(lengths)
    scale = total / max(1, int(offsets[-1]))
    shares = np.zeros((len(words), len(tokens)))
    ends = np.cumsum(lengths)
    for index, (start, end) in enumerate(words):
        first, last = offsets[start] * scale, offsets[end] * scale
        overlaps = np.minimum(ends, last) - np.maximum(ends - lengths, first)
        shares[index] = np.maximum(overlaps, 0.0) / np.maximum(lengths, 1)
    return shares


def _characters(token: str) -> str:
    """Returns the characters of a subword, without spaces; none of the end."""
    if token == _END:
        return ""
    byte = _BYTE.fullmatch(token)
    if byte:
        # Only the first byte of a character in UTF-8 counts.
        return "" if 0x80 <= int(byte[1], 16) < 0xC0 else "x"
    return token.replace(_PIECE_SPACE, "")
