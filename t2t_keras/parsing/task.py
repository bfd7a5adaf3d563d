"""Parsing as a task: sentences in, bracketed trees out, scored by EVALB.

A parser is a translator from words into symbols. Its source is a tree's words with
single blanks between them, its target the linearization of the clean tree (section 6.3;
ADR 0021).

Raw text is split into words by a light version of the Penn Treebank's rules, for
English, the same in Python and in the graph. Text that is split already stays as it is,
with one exception: a final word that ends in a period ("… of Acme Inc.") loses it.

Shapes: B number of texts, N trees of each.
"""

import functools
import re
from collections.abc import Iterable, Iterator

from t2t_keras.parsing.bracket_scores import CUTOFF_LENGTH
from t2t_keras.parsing.graph_repair import repair_trees_in_graph
from t2t_keras.parsing.linearization import linearize, repair_tree, tree_words
from t2t_keras.parsing.tree_scores import score_trees
from t2t_keras.parsing.trees import clean_tree, read_trees
from t2t_keras.text.normalization import normalize, normalize_in_graph
from t2t_keras.typing import Tensor

# These match the characters on both sides, which the next match cannot use again. So
# each is among the rules several times.
_COMMAS = (
    (r"([,:])([^0-9 ])", r"\1 \2"),
    (r"([^0-9 ])([,:])", r"\1 \2"),
)
_SUFFIXES = (
    (r"([^ ])'([sS]|[mM]|[dD]|ll|LL|re|RE|ve|VE)([^A-Za-z]|$)", r"\1 '\2\3"),
    (r"([^ ])([nN]'[tT])([^A-Za-z]|$)", r"\1 \2\3"),
)
_PER_CENT = ((r"%([^-A-Za-z0-9]|$)", r" % \1"),)

# Patterns and replacements, applied in order. They mean the same to Python's `re` and
# to RE2, which has no look-around; text is singly spaced.
_RULES: tuple[tuple[str, str], ...] = (
    # Quotation marks as the Treebank writes them, and its names for brackets.
    ("[\u2018\u201a\u201b]", " ` "),
    ("\u2019", "'"),
    ("[\u201c\u201e\u201f]", " `` "),
    ("\u201d", " '' "),
    ("``", " `` "),
    ("''", " '' "),
    (r'(^|[ (\[{<-])"', r"\1 `` "),
    ('"', " '' "),
    (r"\(", " -LRB- "),
    (r"\)", " -RRB- "),
    (r"\[", " -LSB- "),
    (r"\]", " -RSB- "),
    (r"\{", " -LCB- "),
    (r"\}", " -RCB- "),
    # Marks that are words of their own everywhere.
    ("…", " ... "),
    (r"(\.\.\.+|--+|[;?!])", r" \1 "),
    ("—", " -- "),
    # The period that ends the sentence, before quotation marks and brackets.
    ("  +", " "),
    (r"([^ .])\.((?: ?(?:''|-RRB-|-RSB-|-RCB-)|')*) ?$", r"\1 .\2"),
    # Commas and colons, but not those of 1,000 and 10:30.
    *(2 * _COMMAS),
    (r"([0-9])([,:])( |$)", r"\1 \2\3"),
    (r" ([,:])([0-9])", r" \1 \2"),
    (r"^([,:])([0-9])", r"\1 \2"),
    # Contractions and possessives: do n't, it 's, the dogs '.
    *(4 * _SUFFIXES),
    # Per cent, but for 5%-owned. Currencies before their amounts: US$ 5.
    *(2 * _PER_CENT),
    (r"([$£€¥#])([0-9.])", r"\1 \2"),
    (r"([^ '])'( |$)", r"\1 '\2"),
    (r"(^| )([cC]an)(not)( |$)", r"\1\2 \3\4"),
    (r"(^| )([cC]an)(not)( |$)", r"\1\2 \3\4"),
    ("  +", " "),
)
_COMPILED = tuple((re.compile(pattern), made) for pattern, made in _RULES)


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
        """Returns what `source` does, for [B] string."""
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


def split_words(text: str | bytes) -> str:
    """Returns a text with a single blank between any two words.

    >>> split_words('"The dog (a pug) doesn\\'t sleep," he said.')
    "`` The dog -LRB- a pug -RRB- does n't sleep , '' he said ."
    """
    split = normalize(text)
    for pattern, made in _COMPILED:
        split = pattern.sub(made, split)
    return split.strip(" ")


def split_words_in_graph(texts: Tensor) -> Tensor:
    """Returns `split_words` of strings of any shape, by core TensorFlow ops."""
    import tensorflow as tf

    split = normalize_in_graph(texts)
    for pattern, made in _RULES:
        split = tf.strings.regex_replace(split, pattern, made)
    return tf.strings.strip(split)
