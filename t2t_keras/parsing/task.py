"""Parsing as a task: sentences in, bracketed trees out, scored by EVALB.

A parser is a translator from words into symbols. Its source is a tree's words with
single blanks between them, its target the cleaned and linearized tree (section 6.3;
ADR 0021).

Shapes: B number of texts, N trees of each.
"""

import functools
from collections.abc import Iterable, Iterator

from t2t_keras.parsing.bracket_scores import CUTOFF_LENGTH
from t2t_keras.parsing.cleaning import cleaned
from t2t_keras.parsing.graph_repair import repaired_in_graph
from t2t_keras.parsing.linearization import linearized, repaired, words_of
from t2t_keras.parsing.tree_scores import score_trees
from t2t_keras.parsing.trees import read_trees
from t2t_keras.parsing.word_splitting import split_words, split_words_in_graph
from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.typing import Tensor


def tree_pairs(lines: Iterable[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields sentence and symbols of each tree; of one without words, twice nothing.

    Args:
        lines: Penn Treebank brackets: any number of trees to a line, and of lines to
            a tree. Ill-formed UTF-8 stays as it is.
        name: Of the file, for messages.

    Raises:
        UserError: If something else stands there; the message names the line.
    """
    texts = (line.decode("utf-8", errors="surrogateescape") for line in lines)
    for tree in read_trees(texts, name):
        found = cleaned(tree)
        sides = (" ".join(words_of(found)), linearized(found)) if found else ("", "")
        source, target = (
            side.encode("utf-8", errors="surrogateescape") for side in sides
        )
        yield source, target


class ParserTextAdapter:
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


class Parsing:
    """The task of a parser: see `t2t_keras.runs.tasks.Task`."""

    read_trees = staticmethod(tree_pairs)

    def text_adapter(self, *, splits_words: bool) -> ParserTextAdapter:
        """Returns how sentences become words, and symbols trees over these words."""
        return ParserTextAdapter(splits=splits_words)

    def scorer(self, cutoff_length: int | None = None):
        """Returns EVALB's scores."""
        if cutoff_length is None:
            cutoff_length = CUTOFF_LENGTH
        return functools.partial(score_trees, cutoff_length=cutoff_length)
