"""Repair of trees in the graph: symbols and words in, a bracketed tree out.

The rule is that of `t2t_keras.parsing.linearization.repair_tree`, applied to all
sentences at once with core TensorFlow ops, so that an exported parser needs no Python.
Sums, minima and a sort find the constituents that the symbols open and close,
well-formed or not.

Shapes: B sentences, M symbols, T parts of speech and W words of the longest.
"""

from typing import NamedTuple

from t2t_keras.parsing.tag_matching import (
    OWN_TAGS,
    align_tags_in_graph,
    tag_kinds_in_graph,
    word_kinds_in_graph,
)
from t2t_keras.parsing.trees import ROOT, UNKNOWN
from t2t_keras.typing import Tensor


class Symbols(NamedTuple):
    """Symbols and their types, all [B, M].

    Attributes:
        names: Labels and parts of speech.
        is_open: Whether it opens a constituent.
        is_close: Whether it closes one, if any is open.
        is_tag: Whether it is a part of speech.
        depth: Constituents that are open after it.
    """

    names: Tensor
    is_open: Tensor
    is_close: Tensor
    is_tag: Tensor
    depth: Tensor


def read_symbols(symbols_BM: Tensor) -> Symbols:
    """Returns the type of each symbol; "" is padding."""
    import tensorflow as tf

    first = tf.strings.substr(symbols_BM, 0, 1)
    is_open, is_close = first == "(", first == ")"
    names = tf.strings.regex_replace(symbols_BM, "[()]", "")
    names = tf.where(is_open & (names == ""), UNKNOWN, names)
    is_tag = ~(is_open | is_close) & (symbols_BM != "")
    # The depth without a floor, minus its running minimum: an unmatched closing bracket
    # leaves the depth at 0.
    steps = tf.cast(is_open, tf.int32) - tf.cast(is_close, tf.int32)
    free_depth = tf.cumsum(steps, axis=1)
    depth = free_depth - running_minimum(free_depth)
    return Symbols(names, is_open, is_close, is_tag, depth)


def running_minimum(values_BM: Tensor) -> Tensor:
    """Returns the running minimum of values and 0, by steps of doubling distance."""
    import tensorflow as tf

    length = tf.shape(values_BM)[1]

    def look_back(distance: Tensor, lowest: Tensor) -> tuple[Tensor, Tensor]:
        padding = tf.stack([tf.zeros(2, tf.int32), tf.stack([distance, 0])])
        earlier = tf.pad(lowest, padding)[:, :length]
        return 2 * distance, tf.minimum(lowest, earlier)

    _, lowest = tf.while_loop(
        lambda distance, _: distance < length,
        look_back,
        (tf.constant(1), tf.minimum(values_BM, 0)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
    )
    return lowest


class Ends(NamedTuple):
    """One end of each constituent, all [B, M].

    Attributes:
        counts: Whether there is such an end here, of a constituent over a word.
        depth: Depth of the constituent, 1 for the outermost.
        never_closed: Whether nothing closes it.
    """

    counts: Tensor
    depth: Tensor
    never_closed: Tensor


def brackets_over_words(
    symbols: Symbols, before_BM: Tensor, num_words_B: Tensor
) -> tuple[Ends, Ends]:
    """Returns the openings and closings of constituents over at least one word.

    Sorted by depth, an opening is followed by its closing, if that depth has another
    bracket at all. A closing with nothing to close follows no opening.

    Args:
        symbols: Symbols of the sentences.
        before_BM: int32, number of words before each symbol.
        num_words_B: int32, words of each sentence.
    """
    import tensorflow as tf

    is_bracket = symbols.is_open | symbols.is_close
    # Both ends of a constituent have its own depth.
    depth = symbols.depth + tf.cast(symbols.is_close, tf.int32)
    last = tf.shape(depth)[1] + 1
    order = tf.argsort(tf.where(is_bracket, depth, last), axis=1, stable=True)
    back = tf.argsort(order, axis=1, stable=True)

    def sort_by_depth(values: Tensor) -> Tensor:
        return tf.gather(values, order, batch_dims=1)

    is_open, is_close = sort_by_depth(symbols.is_open), sort_by_depth(symbols.is_close)
    before = sort_by_depth(before_BM)
    next_closes = tf.pad(is_close, [[0, 0], [0, 1]])[:, 1:]
    next_before = tf.pad(before, [[0, 0], [0, 1]])[:, 1:]
    end = tf.where(next_closes, next_before, num_words_B[:, None])
    over_words = is_open & (end > before)
    closes_those = is_close & tf.pad(over_words, [[0, 0], [1, 0]])[:, :-1]

    def unsort(values: Tensor) -> Tensor:
        return tf.gather(values, back, batch_dims=1)

    never_closed = unsort(is_open & ~next_closes)
    return (
        Ends(unsort(over_words), depth, never_closed),
        Ends(unsort(closes_those), depth, never_closed),
    )


def repair_trees_in_graph(symbols: Tensor, sentences: Tensor) -> Tensor:
    """Returns `str(repair_tree(...))` of each, [B] string; "" for one without words.

    Args:
        symbols: [B] string, normalized text.
        sentences: [B] string, normalized text: words with a blank between any two.
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
    root_B = tf.where(has_root_B, _join(tf.where(is_root_BM, read.names, "")), ROOT)
    # The one root encloses everything, so its own brackets are left out.
    outermost_B1 = tf.where(has_root_B, 1, 0)[:, None]
    opens = opens_BM.counts & (opens_BM.depth > outermost_B1)
    closes = closes_BM.counts & (closes_BM.depth > outermost_B1)

    pieces_BM = tf.where(opens, tf.strings.join([" (", read.names]), "")
    pieces_BM = tf.where(closes, ")", pieces_BM)
    # Each word comes after the symbol whose place it takes, which has no piece.
    places = tf.concat([columns_BM, leaves.places], axis=1)
    pieces = tf.concat([pieces_BM, leaves.pieces], axis=1)
    order = tf.argsort(places, axis=1, stable=True)
    inside_B = _join(tf.gather(pieces, order, batch_dims=1))
    ends_B = _join(tf.where(opens & opens_BM.never_closed, ")", ""))
    trees_B = tf.strings.join(["(", root_B, inside_B, ends_B, ")"])
    return tf.where(num_words_B > 0, trees_B, "")


class _Leaves(NamedTuple):
    """The words in the tree, all [B, W].

    Attributes:
        pieces: Words with their parts of speech, in brackets; "" for padding.
        places: Indices of the symbols whose places they take, ascending; M for words
            after all symbols.
    """

    pieces: Tensor
    places: Tensor


def _leaves(symbols: Symbols, words_BW: Tensor, num_words_B: Tensor) -> _Leaves:
    """Returns the words with their parts of speech, each in its place."""
    import tensorflow as tf

    num_tags_B = _count(symbols.is_tag)
    not_tags_BM = tf.cast(~symbols.is_tag, tf.int32)
    # Indices of the parts of speech, and a column of padding.
    places_BT = tf.argsort(not_tags_BM, axis=1, stable=True)
    places_BT = places_BT[:, : tf.reduce_max(num_tags_B) + 1]
    tags_BT = tf.gather(symbols.names, places_BT, batch_dims=1)
    tag_kinds_BT = tag_kinds_in_graph(tags_BT)
    kinds_BW = word_kinds_in_graph(words_BW)
    tag_indices_BW = align_tags_in_graph(
        tag_kinds_BT, kinds_BW, num_tags_B, num_words_B
    )
    has_tag_BW = tag_indices_BW >= 0

    def gather_tags(values_BT: Tensor) -> Tensor:
        return tf.gather(values_BT, tf.maximum(tag_indices_BW, 0), batch_dims=1)

    equal_B1 = (num_tags_B == num_words_B)[:, None]
    fits_BW = has_tag_BW & (equal_B1 | (gather_tags(tag_kinds_BT) == kinds_BW))
    own_BW = tf.gather(tf.constant(OWN_TAGS), kinds_BW)
    labels_BW = tf.where(fits_BW, gather_tags(tags_BT), own_BW)
    pieces_BW = tf.strings.join([" (", labels_BW, " ", words_BW, ")"])

    end = tf.shape(symbols.names)[1]
    return _Leaves(
        tf.where(words_BW != "", pieces_BW, ""),
        _places(has_tag_BW, gather_tags(places_BT), end),
    )


def _places(has_tag_BW: Tensor, tag_places_BW: Tensor, end: Tensor) -> Tensor:
    """Returns the place of each word: its part of speech's, or a neighbor's."""
    import tensorflow as tf

    first_B1 = tf.reduce_min(
        tf.where(has_tag_BW, tag_places_BW, end), axis=1, keepdims=True
    )
    latest_BW = -running_minimum(tf.where(has_tag_BW, -tag_places_BW, 0))
    columns_BW = _columns(has_tag_BW)
    last_B1 = tf.reduce_max(tf.where(has_tag_BW, columns_BW, -1), axis=1, keepdims=True)
    places_BW = tf.maximum(latest_BW, first_B1)
    return tf.where(columns_BW <= last_B1, places_BW, end)


def _split(texts_B: Tensor) -> Tensor:
    """Returns the parts between blanks, padded with "", and a column of padding.

    Without a column there is nothing to gather from, not even padding.
    """
    import tensorflow as tf

    return tf.pad(tf.strings.split(texts_B).to_tensor(""), [[0, 0], [0, 1]])


def _columns(values_BN: Tensor) -> Tensor:
    """Returns the column of each value."""
    import tensorflow as tf

    shape = tf.shape(values_BN)
    return tf.broadcast_to(tf.range(shape[1]), shape)


def _count(mask_BN: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.reduce_sum(tf.cast(mask_BN, tf.int32), axis=1)


def _join(pieces_BN: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.strings.reduce_join(pieces_BN, axis=1)
