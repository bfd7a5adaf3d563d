"""The form of a parser's text: a sentence in, a bracketed tree out.

Shapes: B number of texts, N trees of each.
"""

from t2t_keras.parsing.graph_repair import repaired_in_graph
from t2t_keras.parsing.linearization import repaired
from t2t_keras.parsing.word_splitting import split_words, split_words_in_graph
from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.typing import Tensor

# The language that parsers translate into: what says that a run is one.
TREES = "tree"


class ParserForm:
    """How a parser's lines become sources, and its symbols trees over their words.

    A tree has every word that was read of its line, whatever the model wrote. A line
    without words has no tree: "".

    Args:
        splits: Whether raw text is split into words. If not, blanks say what the words
            are, as they do in a treebank's sentences.
    """

    def __init__(self, *, splits: bool):
        self._splits = splits

    def source(self, line: str | bytes) -> str:
        """Returns the words of a line, a single blank between any two."""
        return split_words(line) if self._splits else normalize(line)

    def answer(self, source: str, target: str) -> str:
        """Returns the tree that symbols describe, over the words of the source."""
        words = source.split()
        return str(repaired(target, words)) if words else ""

    def source_in_graph(self, lines: Tensor) -> Tensor:
        """Returns what `source` does, of [B] string."""
        return (
            split_words_in_graph(lines) if self._splits else normalize_in_graph(lines)
        )

    def answer_in_graph(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Returns what `answer` does, of [B] and [B, N] string, as [B, N]."""
        import tensorflow as tf

        shape = tf.shape(targets)
        each = tf.reshape(tf.repeat(sources, shape[1]), [-1])
        trees = repaired_in_graph(tf.reshape(targets, [-1]), each)
        return tf.reshape(trees, shape)
