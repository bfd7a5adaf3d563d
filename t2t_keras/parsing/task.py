"""Parsing as a task: sentences in, bracketed trees out, scored by EVALB.

A parser is a translator from words into symbols. Its source is a tree's words with
single blanks between them, its target the linearization of the clean tree (section 6.3;
ADR 0021).

Shapes: B number of texts, N trees of each.
"""

import functools
from collections.abc import Iterable, Iterator

from t2t_keras.parsing.bracket_scores import CUTOFF_LENGTH
from t2t_keras.parsing.cleaning import clean_tree
from t2t_keras.parsing.graph_repair import repair_trees_in_graph
from t2t_keras.parsing.linearization import linearize, repair_tree, tree_words
from t2t_keras.parsing.tree_scores import score_trees
from t2t_keras.parsing.trees import read_trees
from t2t_keras.parsing.word_splitting import split_words, split_words_in_graph
from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.typing import Tensor


def tree_pairs(lines: Iterable[bytes], name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yields sentence and symbols of each tree; both are empty for one without words.

    Args:
        lines: Penn Treebank brackets: any number of trees to a line, and of lines to
            a tree. Ill-formed UTF-8 stays as it is.
        name: Name of the file, for messages.

    Raises:
        UserError: If a line holds anything else; the message names it.
    """
    texts = (line.decode("utf-8", errors="surrogateescape") for line in lines)
    for tree in read_trees(texts, name):
        clean = clean_tree(tree)
        sides = (" ".join(tree_words(clean)), linearize(clean)) if clean else ("", "")
        source, target = (
            side.encode("utf-8", errors="surrogateescape") for side in sides
        )
        yield source, target


class ParserTextAdapter:
    """Text adapter of a parser: lines to sources, symbols to trees over their words.

    A tree has every word of its line, for any output of the model. A line without words
    has no tree: "".

    Args:
        splits: Whether raw text is split into words. If not, blanks separate words, as
            in a treebank's sentences.
    """

    def __init__(self, *, splits: bool):
        self._splits = splits

    def source(self, line: str | bytes) -> str:
        """Returns the words of a line, a single blank between any two."""
        return split_words(line) if self._splits else normalize(line)

    def answer(self, source: str, target: str) -> str:
        """Returns the tree that symbols describe, over the words of the source."""
        words = source.split()
        return str(repair_tree(target, words)) if words else ""

    def source_in_graph(self, lines: Tensor) -> Tensor:
        """Returns `source` of each line, [B] string."""
        return (
            split_words_in_graph(lines) if self._splits else normalize_in_graph(lines)
        )

    def answer_in_graph(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Returns `answer` of [B] and [B, N] strings, as [B, N]."""
        import tensorflow as tf

        shape = tf.shape(targets)
        each = tf.reshape(tf.repeat(sources, shape[1]), [-1])
        trees = repair_trees_in_graph(tf.reshape(targets, [-1]), each)
        return tf.reshape(trees, shape)


class Parsing:
    """The task of a parser: see `t2t_keras.runs.tasks.Task`."""

    read_trees = staticmethod(tree_pairs)

    def text_adapter(self, *, splits_words: bool) -> ParserTextAdapter:
        """Returns the adapter from sentences to words, and from symbols to trees."""
        return ParserTextAdapter(splits=splits_words)

    def scorer(self, cutoff_length: int | None = None):
        """Returns the scorer by EVALB's rules."""
        if cutoff_length is None:
            cutoff_length = CUTOFF_LENGTH
        return functools.partial(score_trees, cutoff_length=cutoff_length)
