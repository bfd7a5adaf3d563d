"""`repaired` in the graph: symbols and words in, a bracketed tree out.

The rule is that of `t2t_keras.parsing.linearization.repaired`. Here it is computed for
all symbols at once, by sums, minima and a sort, of core TensorFlow ops, so that an
exported parser answers by itself.

Shapes: B sentences, M symbols, W words of the longest.
"""

from typing import NamedTuple

from t2t_keras.parsing.cleaning import ROOT, UNKNOWN
from t2t_keras.parsing.linearization import DEFAULT_TAG
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

    words = tf.strings.split(tf.strings.regex_replace(sentences, r"\(", "-LRB-"))
    words = tf.strings.regex_replace(words.to_tensor(""), r"\)", "-RRB-")
    # Without a column there is nothing to gather from, not even padding.
    words_BW = tf.pad(words, [[0, 0], [0, 1]])
    is_word_BW = words_BW != ""
    num_words_B1 = _count(is_word_BW, axis=1, keepdims=True)
    read = _read(tf.strings.split(symbols).to_tensor(""), num_words_B1)
    opens_BM, closes_BM = _brackets_over_words(read, num_words_B1)

    is_root_BM = opens_BM.counts & (opens_BM.depth == 1)
    has_root_B1 = _count(is_root_BM, axis=1, keepdims=True) == 1
    root_B = tf.where(
        has_root_B1[:, 0], _joined(tf.where(is_root_BM, read.names, "")), ROOT
    )
    # The one root goes round everything, so its own brackets are left out.
    outermost = tf.where(has_root_B1, 1, 0)
    opens = opens_BM.counts & (opens_BM.depth > outermost)
    closes = closes_BM.counts & (closes_BM.depth > outermost)

    tagged_BM = tf.gather(
        words_BW, tf.minimum(read.before, tf.shape(words_BW)[1] - 1), batch_dims=1
    )
    pieces_BM = tf.where(opens, tf.strings.join([" (", read.names]), "")
    leaves_BM = tf.strings.join([" (", read.names, " ", tagged_BM, ")"])
    pieces_BM = tf.where(read.is_tag, leaves_BM, pieces_BM)
    pieces_BM = tf.where(closes, ")", pieces_BM)
    untagged_BW = is_word_BW & (
        tf.range(tf.shape(words_BW)[1]) >= _count(read.is_tag, axis=1, keepdims=True)
    )
    rest_BW = tf.where(
        untagged_BW, tf.strings.join([f" ({DEFAULT_TAG} ", words_BW, ")"]), ""
    )
    ends_BM = tf.where(opens & opens_BM.never_closed, ")", "")
    parts = [_joined(part) for part in (pieces_BM, rest_BW, ends_BM)]
    trees_B = tf.strings.join(["(", root_B, *parts, ")"])
    return tf.where(num_words_B1[:, 0] > 0, trees_B, "")


class _Symbols(NamedTuple):
    """Symbols, and what each is, all [B, M].

    Attributes:
        names: Labels and parts of speech.
        is_open: Whether it opens a constituent.
        is_close: Whether it closes one, if any is open.
        is_tag: Whether it is the part of speech of a word that there is.
        before: Words that stand before it.
        depth: Constituents that are open after it.
    """

    names: Tensor
    is_open: Tensor
    is_close: Tensor
    is_tag: Tensor
    before: Tensor
    depth: Tensor


def _read(symbols_BM: Tensor, num_words_B1: Tensor) -> _Symbols:
    """Returns what each symbol is; "" is padding."""
    import tensorflow as tf

    first = tf.strings.substr(symbols_BM, 0, 1)
    is_open, is_close = first == "(", first == ")"
    names = tf.strings.regex_replace(symbols_BM, "[()]", "")
    names = tf.where(is_open & (names == ""), UNKNOWN, names)
    is_tag = ~(is_open | is_close) & (symbols_BM != "")
    before = tf.cumsum(tf.cast(is_tag, tf.int32), axis=1, exclusive=True)
    # Depth that nothing keeps above 0, less how far below it has ever been: a closing
    # that goes lower than ever before has nothing to close, and leaves 0.
    steps = tf.cast(is_open, tf.int32) - tf.cast(is_close, tf.int32)
    free_depth = tf.cumsum(steps, axis=1)
    lowest = tf.minimum(_running_minimum(free_depth), 0)
    return _Symbols(
        names,
        is_open,
        is_close,
        is_tag & (before < num_words_B1),
        tf.minimum(before, num_words_B1),
        free_depth - lowest,
    )


def _running_minimum(values_BM: Tensor) -> Tensor:
    """Returns the least of each value, all before it, and 0.

    In steps that look back twice as far each time.
    """
    import tensorflow as tf

    length = tf.shape(values_BM)[1]

    def look_back(distance: Tensor, lowest: Tensor) -> tuple[Tensor, Tensor]:
        padding = tf.stack([tf.zeros(2, tf.int32), tf.stack([distance, 0])])
        earlier = tf.pad(lowest, padding)[:, :length]
        return 2 * distance, tf.minimum(lowest, earlier)

    _, lowest = tf.while_loop(
        lambda distance, _: distance < length,
        look_back,
        (tf.constant(1), values_BM),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
    )
    return lowest


class _Ends(NamedTuple):
    """One end of each constituent, all [B, M].

    Attributes:
        counts: Whether there is such an end here, of a constituent over a word.
        depth: Of the constituent, 1 for the outermost.
        never_closed: Whether nothing closes it.
    """

    counts: Tensor
    depth: Tensor
    never_closed: Tensor


def _brackets_over_words(
    symbols: _Symbols, num_words_B1: Tensor
) -> tuple[_Ends, _Ends]:
    """Returns where constituents over at least one word open and close.

    Sorted by depth, what follows an opening is its closing, if that depth has another
    bracket at all. A closing with nothing to close follows no opening.
    """
    import tensorflow as tf

    is_bracket = symbols.is_open | symbols.is_close
    # A constituent's own depth, of both its ends.
    depth = symbols.depth + tf.cast(symbols.is_close, tf.int32)
    last = tf.shape(depth)[1] + 1
    order = tf.argsort(tf.where(is_bracket, depth, last), axis=1, stable=True)
    back = tf.argsort(order, axis=1, stable=True)

    def sorted_(values: Tensor) -> Tensor:
        return tf.gather(values, order, batch_dims=1)

    is_open, is_close = sorted_(symbols.is_open), sorted_(symbols.is_close)
    before = sorted_(symbols.before)
    next_closes = tf.pad(is_close, [[0, 0], [0, 1]])[:, 1:]
    next_before = tf.pad(before, [[0, 0], [0, 1]])[:, 1:]
    end = tf.where(next_closes, next_before, num_words_B1)
    over_words = is_open & (end > before)
    closes_those = is_close & tf.pad(over_words, [[0, 0], [1, 0]])[:, :-1]

    def unsorted(values: Tensor) -> Tensor:
        return tf.gather(values, back, batch_dims=1)

    never_closed = unsorted(is_open & ~next_closes)
    return (
        _Ends(unsorted(over_words), depth, never_closed),
        _Ends(unsorted(closes_those), depth, never_closed),
    )


def _count(mask: Tensor, **where: object) -> Tensor:
    import tensorflow as tf

    return tf.reduce_sum(tf.cast(mask, tf.int32), **where)  # type: ignore[arg-type]


def _joined(pieces_BM: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.strings.reduce_join(pieces_BM, axis=1)
