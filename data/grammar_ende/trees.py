"""Constituency trees in the bracketed notation of the Penn Treebank."""

import re
from collections.abc import Iterator
from typing import NamedTuple


class Tree(NamedTuple):
    """A node: a label over subtrees, or a part of speech over one word."""

    label: str
    children: "tuple[Tree, ...]"
    word: str = ""

    def leaves(self) -> Iterator["Tree"]:
        """Yields the parts of speech from left to right."""
        if self.word:
            yield self
        for child in self.children:
            yield from child.leaves()

    def __str__(self) -> str:
        inside = self.word or " ".join(str(child) for child in self.children)
        return f"({self.label} {inside})"


def leaf(tag: str, word: str) -> Tree:
    """Returns the tree of one word."""
    return Tree(tag, (), word)


def node(label: str, *children: Tree | None) -> Tree:
    """Returns a tree over its children; those that are None are left out."""
    return Tree(label, tuple(child for child in children if child is not None))


def read_tree(brackets: str) -> Tree:
    """Returns the tree written as `(NP (DT the) (NN dog))`.

    Raises:
        ValueError: if the brackets do not close, or close too early.
    """
    stack: list[list[Tree | str]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", brackets):
        if token == "(":
            stack.append([])
        elif token == ")" and len(stack) > 1:
            label, *rest = stack.pop()
            words = [child for child in rest if isinstance(child, str)]
            trees = [child for child in rest if isinstance(child, Tree)]
            stack[-1].append(Tree(str(label), tuple(trees), "".join(words)))
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1 or not isinstance(stack[0][0], Tree):
        raise ValueError(f"brackets must hold exactly one tree. Received: {brackets!r}")
    return stack[0][0]
