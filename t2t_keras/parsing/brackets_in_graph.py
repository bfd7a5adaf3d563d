"""What the symbols of trees are, and which constituents they open and close.

For any symbols, well-formed or not, all at once: by sums, minima and a sort.

Shapes: B sentences, M symbols of the longest.
"""

from typing import NamedTuple

from t2t_keras.parsing.cleaning import UNKNOWN
from t2t_keras.typing import Tensor


class Symbols(NamedTuple):
    """Symbols, and what each is, all [B, M].

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
    """Returns what each symbol is; "" is padding."""
    import tensorflow as tf

    first = tf.strings.substr(symbols_BM, 0, 1)
    is_open, is_close = first == "(", first == ")"
    names = tf.strings.regex_replace(symbols_BM, "[()]", "")
    names = tf.where(is_open & (names == ""), UNKNOWN, names)
    is_tag = ~(is_open | is_close) & (symbols_BM != "")
    # Depth that nothing keeps above 0, less how far below it has ever been: a closing
    # that goes lower than ever before has nothing to close, and leaves 0.
    steps = tf.cast(is_open, tf.int32) - tf.cast(is_close, tf.int32)
    free_depth = tf.cumsum(steps, axis=1)
    depth = free_depth - running_minimum(free_depth)
    return Symbols(names, is_open, is_close, is_tag, depth)


def running_minimum(values_BM: Tensor) -> Tensor:
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
        (tf.constant(1), tf.minimum(values_BM, 0)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
    )
    return lowest


class Ends(NamedTuple):
    """One end of each constituent, all [B, M].

    Attributes:
        counts: Whether there is such an end here, of a constituent over a word.
        depth: Of the constituent, 1 for the outermost.
        never_closed: Whether nothing closes it.
    """

    counts: Tensor
    depth: Tensor
    never_closed: Tensor


def brackets_over_words(
    symbols: Symbols, before_BM: Tensor, num_words_B: Tensor
) -> tuple[Ends, Ends]:
    """Returns where constituents over at least one word open and close.

    Sorted by depth, what follows an opening is its closing, if that depth has another
    bracket at all. A closing with nothing to close follows no opening.

    Args:
        symbols: Of the sentences.
        before_BM: int32, words that stand before each symbol.
        num_words_B: int32, words of each sentence.
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
    before = sorted_(before_BM)
    next_closes = tf.pad(is_close, [[0, 0], [0, 1]])[:, 1:]
    next_before = tf.pad(before, [[0, 0], [0, 1]])[:, 1:]
    end = tf.where(next_closes, next_before, num_words_B[:, None])
    over_words = is_open & (end > before)
    closes_those = is_close & tf.pad(over_words, [[0, 0], [1, 0]])[:, :-1]

    def unsorted(values: Tensor) -> Tensor:
        return tf.gather(values, back, batch_dims=1)

    never_closed = unsorted(is_open & ~next_closes)
    return (
        Ends(unsorted(over_words), depth, never_closed),
        Ends(unsorted(closes_those), depth, never_closed),
    )
