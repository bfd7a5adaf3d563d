"""Detokenization in the graph: a table of subword pieces, looked up by core ops.

A graph that decodes ids this way needs no library but TensorFlow.

Shapes: N number of texts, L length, V vocabulary.
"""

from collections.abc import Callable, Sequence

import sentencepiece
import tensorflow as tf

from t2t_keras.text.normalization import normalize_in_graph
from t2t_keras.typing import Tensor

_REPLACEMENT = "\ufffd"


class PieceTable:
    """Names and texts of all ids, as constants of a graph.

    Each function is traced once, so that a graph holds the table once for any number
    of functions that use it.

    Args:
        names: [V] name of each id.
        texts: [V] text of each id; for a byte piece, the byte.
        byte_values: [V] value of a byte piece, -1 for other ids.
        finish: Function of the joined texts [N] string.
    """

    def __init__(
        self,
        names: Sequence[str],
        texts: Sequence[bytes],
        byte_values: Sequence[int],
        finish: Callable[[Tensor], Tensor] = normalize_in_graph,
    ):
        # As tuples: each graph that uses them makes constants of its own.
        self._names = tuple(names)
        self._texts = tuple(texts)
        self._byte_values = tuple(byte_values)
        self._finish = finish
        ids = tf.TensorSpec([None, None], tf.int32)
        self.names = tf.function(
            self._look_up_names, autograph=False, input_signature=[ids]
        )
        self.spell = tf.function(self._spell, autograph=False, input_signature=[ids])

    @classmethod
    def from_processor(
        cls, processor: sentencepiece.SentencePieceProcessor
    ) -> "PieceTable":
        """Returns the table of a loaded SentencePiece model."""
        size = processor.get_piece_size()
        names = [processor.id_to_piece(token_id) for token_id in range(size)]
        texts = [name.replace("\u2581", " ").encode() for name in names]
        byte_values = [-1] * size
        for token_id in range(size):
            if processor.is_byte(token_id):
                byte_values[token_id] = int(names[token_id][3:-1], 16)  # <0x41>
                texts[token_id] = bytes([byte_values[token_id]])
            elif processor.is_control(token_id):
                texts[token_id] = b""
        unknown = processor.unk_id()
        texts[unknown] = processor.decode([unknown]).encode()
        return cls(names, texts, byte_values)

    def _look_up_names(self, ids: Tensor) -> Tensor:
        """Returns [N, L] string, the names of ids [N, L] int32."""
        return tf.gather(tf.constant(self._names), ids)

    def _spell(self, ids: Tensor) -> Tensor:
        """Returns [N] string, the text of each row of ids [N, L] int32."""
        bytes_NL = tf.gather(tf.constant(self._byte_values, tf.int32), ids)
        texts_NL = tf.gather(tf.constant(self._texts), ids)
        broken_NL = (bytes_NL >= 0) & ~_is_well_formed(bytes_NL)
        texts_NL = tf.where(broken_NL, _REPLACEMENT, texts_NL)
        return self._finish(tf.strings.reduce_join(texts_NL, axis=1))


def _is_well_formed(bytes_NL: Tensor) -> Tensor:
    """Returns whether each byte is part of a well-formed UTF-8 character, [N, L] bool.

    SentencePiece replaces every byte that is not by one U+FFFD; TensorFlow's own
    decoding replaces several that begin a character together by one.

    Args:
        bytes_NL: int32; -1 where there is no byte, which ends a character.

    Source: Unicode 16, table 3-7.
    """
    second_NL, third_NL, fourth_NL = (_shift_left(bytes_NL, by) for by in (1, 2, 3))
    # No overlong forms, no surrogates, nothing beyond U+10FFFF.
    low_NL = tf.where(bytes_NL == 0xE0, 0xA0, tf.where(bytes_NL == 0xF0, 0x90, 0x80))
    high_NL = tf.where(bytes_NL == 0xED, 0x9F, tf.where(bytes_NL == 0xF4, 0x8F, 0xBF))
    continues_NL = _within(second_NL, low_NL, high_NL)
    one_NL = _within(bytes_NL, 0x00, 0x7F)
    two_NL = _within(bytes_NL, 0xC2, 0xDF) & continues_NL
    three_NL = _within(bytes_NL, 0xE0, 0xEF) & continues_NL
    three_NL &= _within(third_NL, 0x80, 0xBF)
    four_NL = _within(bytes_NL, 0xF0, 0xF4) & continues_NL
    four_NL &= _within(third_NL, 0x80, 0xBF) & _within(fourth_NL, 0x80, 0xBF)
    # Number of bytes of the character that begins here; 0 where none does.
    lengths_NL = sum(
        tf.cast(is_lead, tf.int32) * length
        for length, is_lead in enumerate((one_NL, two_NL, three_NL, four_NL), start=1)
    )
    parts = [_shift_left(lengths_NL, -back) > back for back in range(4)]
    return parts[0] | parts[1] | parts[2] | parts[3]


def _within(values: Tensor, low: Tensor | int, high: Tensor | int) -> Tensor:
    return (values >= low) & (values <= high)


def _shift_left(values_NL: Tensor, by: int) -> Tensor:
    """Returns values shifted left by `by` places, or right; -1 fills the gap."""
    if by >= 0:
        moved_NL = values_NL[:, by:]
        missing = [0, tf.minimum(by, tf.shape(values_NL)[1])]
    else:
        moved_NL = values_NL[:, :by]
        missing = [tf.minimum(-by, tf.shape(values_NL)[1]), 0]
    return tf.pad(moved_NL, [[0, 0], missing], constant_values=-1)
