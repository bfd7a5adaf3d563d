"""Table of subword pieces as constants of a graph, for detokenization by core ops.

A graph that makes text of ids this way needs no library beside TensorFlow.

Shapes: N number of texts, L length, V vocabulary.
"""

from collections.abc import Sequence

import tensorflow as tf

from t2t_keras.text.normalization import normalize_in_graph
from t2t_keras.typing import Tensor

_REPLACEMENT = "\ufffd"


class PieceTable:
    """Names and texts of ids.

    Each function is traced once, so that a graph holds the table once however many
    of its functions use it.

    Args:
        names: [V] what each id is called.
        texts: [V] what each id spells: of an id that stands for a byte, that byte.
        byte_values: [V] the byte that an id stands for, or -1.
    """

    def __init__(
        self, names: Sequence[str], texts: Sequence[bytes], byte_values: Sequence[int]
    ):
        # As tuples: a constant is made in each graph that uses it.
        self._names = tuple(names)
        self._texts = tuple(texts)
        self._byte_values = tuple(byte_values)
        ids = tf.TensorSpec([None, None], tf.int32)
        self.names = tf.function(self._names_of, autograph=False, input_signature=[ids])
        self.spell = tf.function(self._spell, autograph=False, input_signature=[ids])

    def _names_of(self, ids: Tensor) -> Tensor:
        """Returns [N, L] string, the names of ids [N, L] int32."""
        return tf.gather(tf.constant(self._names), ids)

    def _spell(self, ids: Tensor) -> Tensor:
        """Returns [N] string, normalized: what ids [N, L] int32 spell together."""
        bytes_NL = tf.gather(tf.constant(self._byte_values, tf.int32), ids)
        texts_NL = tf.gather(tf.constant(self._texts), ids)
        broken_NL = (bytes_NL >= 0) & ~_is_well_formed(bytes_NL)
        texts_NL = tf.where(broken_NL, _REPLACEMENT, texts_NL)
        return normalize_in_graph(tf.strings.reduce_join(texts_NL, axis=1))


def _is_well_formed(bytes_NL: Tensor) -> Tensor:
    """Returns where a byte is part of a well-formed UTF-8 character, [N, L] bool.

    SentencePiece makes one U+FFFD of every byte that is not; TensorFlow's own
    decoding makes one of several that begin a character together.

    Args:
        bytes_NL: int32; -1 where there is no byte, which ends a character.

    Source: Unicode 16, table 3-7.
    """
    second_NL, third_NL, fourth_NL = (_following(bytes_NL, by) for by in (1, 2, 3))
    # No overlong forms, no surrogates, nothing beyond U+10FFFF.
    least_NL = tf.where(bytes_NL == 0xE0, 0xA0, tf.where(bytes_NL == 0xF0, 0x90, 0x80))
    most_NL = tf.where(bytes_NL == 0xED, 0x9F, tf.where(bytes_NL == 0xF4, 0x8F, 0xBF))
    goes_on_NL = _within(second_NL, least_NL, most_NL)
    one_NL = _within(bytes_NL, 0x00, 0x7F)
    two_NL = _within(bytes_NL, 0xC2, 0xDF) & goes_on_NL
    three_NL = _within(bytes_NL, 0xE0, 0xEF) & goes_on_NL
    three_NL &= _within(third_NL, 0x80, 0xBF)
    four_NL = _within(bytes_NL, 0xF0, 0xF4) & goes_on_NL
    four_NL &= _within(third_NL, 0x80, 0xBF) & _within(fourth_NL, 0x80, 0xBF)
    # How many bytes the character has that begins here; 0 where none does.
    lengths_NL = sum(
        tf.cast(is_lead, tf.int32) * length
        for length, is_lead in enumerate((one_NL, two_NL, three_NL, four_NL), start=1)
    )
    parts = [_following(lengths_NL, -back) > back for back in range(4)]
    return parts[0] | parts[1] | parts[2] | parts[3]


def _within(values: Tensor, least: Tensor | int, most: Tensor | int) -> Tensor:
    return (values >= least) & (values <= most)


def _following(values_NL: Tensor, by: int) -> Tensor:
    """Returns what stands `by` places later, or -1; earlier if `by` is negative."""
    if by >= 0:
        moved_NL = values_NL[:, by:]
        missing = [0, tf.minimum(by, tf.shape(values_NL)[1])]
    else:
        moved_NL = values_NL[:, :by]
        missing = [tf.minimum(-by, tf.shape(values_NL)[1]), 0]
    return tf.pad(moved_NL, [[0, 0], missing], constant_values=-1)
