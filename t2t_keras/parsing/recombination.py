"""Data augmentation for treebanks: phrases exchanged for others of the same label.

A treebank of some thousand sentences shows each of its words in few places: a parser
learns from it the shape of trees, but not the parts of speech of words. Exchanging
phrases (Shi, Livescu and Gimpel, "Substructure Substitution",
2021) makes up for some of that.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from t2t_keras.parsing.trees import Step, Tree, build_trees, walk

# Words of a phrase written alone: enough to learn the words' parts of speech.
_PHRASE_WORDS = range(2, 16)
# Share of constituents that are exchanged, and how much shorter or longer the other
# may be: sentences keep about their lengths.
_EXCHANGED = 0.25
_SHORTEST, _LONGEST = 0.6, 1.5


def phrases(trees: Iterable[Tree]) -> Iterator[Tree]:
    """Yields the constituents of 2 to 15 words below the roots, each once."""
    seen: set[str] = set()
    for tree in trees:
        for node in _constituents(tree):
            if node is tree or word_count(node) not in _PHRASE_WORDS:
                continue
            text = str(node)
            if text not in seen:
                seen.add(text)
                yield node


class Recombination:
    """Constituents of a treebank of clean trees (`clean_tree`), to exchange."""

    def __init__(self, trees: Sequence[Tree]):
        nodes: dict[str, list[Tree]] = {}
        for tree in trees:
            for node in _constituents(tree):
                if node is not tree:
                    nodes.setdefault(node.label, []).append(node)
        # The constituents of each label, from the shortest to the longest.
        self._nodes = {
            label: sorted(each, key=word_count) for label, each in nodes.items()
        }
        self._counts = {
            label: list(map(word_count, each)) for label, each in self._nodes.items()
        }

    def exchange(self, tree: Tree, rng: np.random.Generator) -> Tree:
        """Returns a tree with a quarter of its constituents exchanged.

        From the top, each constituent of n words is replaced with that probability by
        one of the same label with 0.6n to 1.5n + 1 words, drawn from the whole
        treebank. Replacements are left as they are, and the outermost one stays.

        Args:
            tree: Any tree; a label that the treebank lacks is not exchanged.
            rng: Random generator.
        """
        (exchanged,) = build_trees(self._steps(tree, rng))
        return exchanged

    def _steps(self, tree: Tree, rng: np.random.Generator) -> Iterator[Step]:
        waiting: list[Tree | None] = [tree]
        while waiting:
            node = waiting.pop()
            if node is None or node.word is not None:
                yield node
            elif node is not tree and rng.random() < _EXCHANGED:
                yield from walk(self._like(node, rng))
            else:
                yield node.label
                waiting.append(None)
                waiting.extend(reversed(node.children))

    def _like(self, node: Tree, rng: np.random.Generator) -> Tree:
        counts, words = self._counts.get(node.label, []), word_count(node)
        low = bisect.bisect_left(counts, _SHORTEST * words)
        high = bisect.bisect_right(counts, _LONGEST * words + 1)
        if low == high:
            return node
        return self._nodes[node.label][rng.integers(low, high)]


def word_count(tree: Tree) -> int:
    """Returns the number of words of a tree."""
    return sum(1 for _ in tree.leaves())


def _constituents(tree: Tree) -> Iterator[Tree]:
    """Yields the constituents of a tree, itself first, parents before children."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node.word is None:
            yield node
            waiting.extend(reversed(node.children))
