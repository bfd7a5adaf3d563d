"""`repaired` in the graph: symbols and words in, a bracketed tree out.

The rule is that of `t2t_keras.parsing.linearization.repaired`. Here it is computed for
all sentences at once, of core TensorFlow ops, so that an exported parser answers by
itself.

Shapes: B sentences, M symbols, T parts of speech and W words of the longest.
"""

from typing import NamedTuple

from t2t_keras.parsing.alignment_in_graph import aligned_in_graph
from t2t_keras.parsing.brackets_in_graph import (
    Symbols,
    brackets_over_words,
    read_symbols,
    running_minimum,
)
from t2t_keras.parsing.cleaning import ROOT
from t2t_keras.parsing.punctuation import (
    OWN_TAGS,
    kinds_of_tags_in_graph,
    kinds_of_words_in_graph,
)
from t2t_keras.typing import Tensor


def repaired_in_graph(symbols: Tensor, sentences: Tensor) -> Tensor:
    """Returns bracketed trees, to the letter as `str(repaired(...))` gives them.

    Args:
        symbols: [B] string, normalised text.
        sentences: [B] string, normalised text: words with a blank between any two.

    Returns:
        [B] string; "" where a sentence has no word.
    """
    import tensorflow as tf

    words = tf.strings.regex_replace(sentences, r"\(", "-LRB-")
    words_BW = _split(tf.strings.regex_replace(words, r"\)", "-RRB-"))
    num_words_B = _count(words_BW != "")
    read = read_symbols(_split(symbols))
    leaves = _leaves(read, words_BW, num_words_B)
    columns_BM = _columns(read.names)
    before_BM = tf.searchsorted(leaves.places, columns_BM)
    opens_BM, closes_BM = brackets_over_words(read, before_BM, num_words_B)

    is_root_BM = opens_BM.counts & (opens_BM.depth == 1)
    has_root_B = _count(is_root_BM) == 1
    root_B = tf.where(has_root_B, _joined(tf.where(is_root_BM, read.names, "")), ROOT)
    # The one root goes round everything, so its own brackets are left out.
    outermost_B1 = tf.where(has_root_B, 1, 0)[:, None]
    opens = opens_BM.counts & (opens_BM.depth > outermost_B1)
    closes = closes_BM.counts & (closes_BM.depth > outermost_B1)

    pieces_BM = tf.where(opens, tf.strings.join([" (", read.names]), "")
    pieces_BM = tf.where(closes, ")", pieces_BM)
    # Each word comes after the symbol in whose place it stands, which has no piece.
    places = tf.concat([columns_BM, leaves.places], axis=1)
    pieces = tf.concat([pieces_BM, leaves.pieces], axis=1)
    order = tf.argsort(places, axis=1, stable=True)
    inside_B = _joined(tf.gather(pieces, order, batch_dims=1))
    ends_B = _joined(tf.where(opens & opens_BM.never_closed, ")", ""))
    trees_B = tf.strings.join(["(", root_B, inside_B, ends_B, ")"])
    return tf.where(num_words_B > 0, trees_B, "")


class _Leaves(NamedTuple):
    """The words in the tree, all [B, W].

    Attributes:
        pieces: With their parts of speech, in brackets; "" for padding.
        places: Of the parts of speech in whose place they stand, among the symbols;
            ascending, and M for what comes after all of them.
    """

    pieces: Tensor
    places: Tensor


def _leaves(symbols: Symbols, words_BW: Tensor, num_words_B: Tensor) -> _Leaves:
    """Returns the words with their parts of speech, each in its place."""
    import tensorflow as tf

    num_tags_B = _count(symbols.is_tag)
    not_tags_BM = tf.cast(~symbols.is_tag, tf.int32)
    # Where the parts of speech stand, and a column of padding.
    places_BT = tf.argsort(not_tags_BM, axis=1, stable=True)
    places_BT = places_BT[:, : tf.reduce_max(num_tags_B) + 1]
    tags_BT = tf.gather(symbols.names, places_BT, batch_dims=1)
    tag_kinds_BT = kinds_of_tags_in_graph(tags_BT)
    kinds_BW = kinds_of_words_in_graph(words_BW)
    found_BW = aligned_in_graph(tag_kinds_BT, kinds_BW, num_tags_B, num_words_B)
    given_BW = found_BW >= 0

    def of_its_tag(values_BT: Tensor) -> Tensor:
        return tf.gather(values_BT, tf.maximum(found_BW, 0), batch_dims=1)

    equal_B1 = (num_tags_B == num_words_B)[:, None]
    fits_BW = given_BW & (equal_B1 | (of_its_tag(tag_kinds_BT) == kinds_BW))
    own_BW = tf.gather(tf.constant(OWN_TAGS), kinds_BW)
    labels_BW = tf.where(fits_BW, of_its_tag(tags_BT), own_BW)
    pieces_BW = tf.strings.join([" (", labels_BW, " ", words_BW, ")"])

    end = tf.shape(symbols.names)[1]
    return _Leaves(
        tf.where(words_BW != "", pieces_BW, ""),
        _places(given_BW, of_its_tag(places_BT), end),
    )


def _places(given_BW: Tensor, tag_places_BW: Tensor, end: Tensor) -> Tensor:
    """Returns where each word stands: as its part of speech, or the words around it."""
    import tensorflow as tf

    first_B1 = tf.reduce_min(
        tf.where(given_BW, tag_places_BW, end), axis=1, keepdims=True
    )
    latest_BW = -running_minimum(tf.where(given_BW, -tag_places_BW, 0))
    columns_BW = _columns(given_BW)
    last_B1 = tf.reduce_max(tf.where(given_BW, columns_BW, -1), axis=1, keepdims=True)
    places_BW = tf.maximum(latest_BW, first_B1)
    return tf.where(columns_BW <= last_B1, places_BW, end)


def _split(texts_B: Tensor) -> Tensor:
    """Returns what blanks separate, padded with "", and a column of padding.

    Without a column there is nothing to gather from, not even padding.
    """
    import tensorflow as tf

    return tf.pad(tf.strings.split(texts_B).to_tensor(""), [[0, 0], [0, 1]])


def _columns(values_BN: Tensor) -> Tensor:
    """Returns of each value in which column it stands."""
    import tensorflow as tf

    shape = tf.shape(values_BN)
    return tf.broadcast_to(tf.range(shape[1]), shape)


def _count(mask_BN: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.reduce_sum(tf.cast(mask_BN, tf.int32), axis=1)


def _joined(pieces_BN: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.strings.reduce_join(pieces_BN, axis=1)
