"""Ids of target terms as they are within a sentence, in Python and in the graph.

Shapes: B sentences, C terms of each, P tokens of a term, M terms of all sentences.
"""

import string

from t2t_keras.text.protected_spans import SPACELESS, is_spaceless
from t2t_keras.text.reading import TextReader
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary
from t2t_keras.typing import Tensor

# Limits of each sentence in the graph. At each position a search compares each
# candidate with each token of C terms, P of each.
MAX_TERMS = 16
MAX_TERM_TOKENS = 32
# Of all terms of a sentence together.
MAX_TOKENS = 64


class TermEncoder:
    """Encoder of terms as they are after another word.

    Where a script has no spaces, a term follows the character before it.

    Args:
        vocabulary: Vocabulary of targets.
    """

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._spaced = _Context("a ", vocabulary)
        # A tokenizer may join unknown characters: the term might be a part of them.
        glue = "a" if UNK_ID not in vocabulary.encode("a") else ""
        self._glued = _Context(glue, vocabulary)
        # For vocabularies whose pieces may be several words.
        self._alone = _Context("", vocabulary)

    def encode(self, term: str) -> list[int]:
        """Returns the ids of a term; [] if it is empty or a character has no piece."""
        text = self._vocabulary.normalize(term).strip(string.whitespace)
        if not text:
            return []
        glued = self._glued.encode(text) if is_spaceless(text[0]) else []
        return glued or self._spaced.encode(text) or self._alone.encode(text)

    def encode_in_graph(self, terms: Tensor) -> Tensor:
        """Returns the ids of the terms of sentences, [B, C, P] int32, padded with 0.

        There is only padding for a term that has more than `MAX_TERM_TOKENS` tokens or
        a character without a piece. Terms after `MAX_TERMS`, such terms counted, and
        those that have more than `MAX_TOKENS` with the ones before them, are left out.

        Args:
            terms: [B] string, terms with line breaks between them.
        """
        import tensorflow as tf

        lines = tf.strings.split(terms, "\n")
        lines = lines.with_flat_values(
            tf.strings.strip(self._vocabulary.normalize_in_graph(lines.flat_values))
        )
        is_term = lines.with_flat_values(lines.flat_values != "")
        lines = tf.ragged.boolean_mask(lines, is_term)[:, :MAX_TERMS]
        texts_M = lines.flat_values
        ids_MP = self._glued.encode_in_graph(texts_M)
        is_spaceless_M = tf.strings.regex_full_match(texts_M, f"(?s){SPACELESS}.*")
        ids_MP = tf.where(is_spaceless_M[:, None], ids_MP, PAD_ID)
        for context in (self._spaced, self._alone):
            is_found_M1 = ids_MP[:, :1] != PAD_ID
            ids_MP = tf.where(is_found_M1, ids_MP, context.encode_in_graph(texts_M))
        ids_BCP = lines.with_flat_values(ids_MP).to_tensor(PAD_ID)
        lengths_BC = tf.reduce_sum(tf.cast(ids_BCP != PAD_ID, tf.int32), axis=2)
        fits_BC = tf.cumsum(lengths_BC, axis=1) <= MAX_TOKENS
        lengths_BC = tf.where(fits_BC, lengths_BC, 0)
        # No wider than what is left of the sentences needs.
        counts_BC = tf.where(lengths_BC > 0, tf.range(1, tf.shape(ids_BCP)[1] + 1), 0)
        most, longest = (
            tf.reduce_max(tf.concat([tf.reshape(numbers, [-1]), [1]], axis=0))
            for numbers in (counts_BC, lengths_BC)
        )
        ids_BCP = tf.where(fits_BC[..., None], ids_BCP, PAD_ID)
        return ids_BCP[:, :most, :longest]


class _Context:
    """Text before a term, whose tokens are not those of the term."""

    def __init__(self, text: str, vocabulary: Vocabulary):
        self._text = text
        self._vocabulary = vocabulary
        # With the piece of a language, if texts begin with it.
        self._ids = vocabulary.encode(text.strip())[:-1]
        if not text and vocabulary.tag_id is not None:
            self._ids = [vocabulary.tag_id]
        self._reader = TextReader(vocabulary, len(self._ids) + MAX_TERM_TOKENS + 1)

    def encode(self, term: str) -> list[int]:
        """Returns the ids of a term; [] if one is unknown, or a piece spans both."""
        before = len(self._ids)
        ids = self._vocabulary.encode(self._text + term)[:-1]
        if ids[:before] != self._ids or UNK_ID in ids[before:]:
            return []
        return ids[before:]

    def encode_in_graph(self, terms: Tensor) -> Tensor:
        """Returns what `encode` does for terms [M], [M, MAX_TERM_TOKENS] int32.

        The rest of a row, or all of a term with more tokens, is padding.
        """
        import tensorflow as tf

        read = self._reader.read_in_graph(tf.strings.join([self._text, terms]))
        width = len(self._ids) + MAX_TERM_TOKENS
        ids = tf.pad(read.ids, [[0, 0], [0, width]], constant_values=PAD_ID)[:, :width]
        before, own = tf.split(ids, [len(self._ids), MAX_TERM_TOKENS], axis=1)
        is_whole = (
            tf.reduce_all(before == tf.constant(self._ids, tf.int32), axis=1)
            & ~tf.reduce_any(own == UNK_ID, axis=1)
            & ~read.truncated
        )
        return tf.where(is_whole[:, None] & (own != EOS_ID), own, PAD_ID)
