"""Constituency trees: read from Penn Treebank brackets, walked, and printed.

No function calls itself: a tree may be as deep as memory is large.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from t2t_keras.errors import UserError

# Treebanks are separated by ASCII's white space, as C's `isspace` has it.
_PART = re.compile(r"[()]|[^() \t\n\v\f\r]+")
# The rest of what ends a word in a sentence (`t2t_keras.text.normalization`).
_SPACES_IN_A_WORD = re.compile("[\\s\u2581]+")


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A constituent over other trees, or a word with its part of speech.

    Attributes:
        label: Of the constituent (NP-SBJ), or the word's part of speech (NNS). The
            Treebank's outermost bracket has none: "".
        children: Of a constituent, in the order of the words; of a word none.
        word: The word; None of a constituent.

    >>> print(Tree("NP", (Tree("DT", word="the"), Tree("NN", word="dog"))))
    (NP (DT the) (NN dog))
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def leaves(self) -> Iterator["Tree"]:
        """Yields the words with their parts of speech, from left to right."""
        return (step for step in walk(self) if isinstance(step, Tree))

    def __str__(self) -> str:
        """One line that `read_trees` reads back; brackets in a word as in the Treebank.

        A word "(" is written -LRB-, and ")" -RRB-.
        """
        pieces = []
        for step in walk(self):
            if step is None:
                pieces.append(")")
            elif isinstance(step, Tree):
                pieces.append(f" ({step.label} {without_brackets(step.word or '')})")
            else:
                pieces.append(f" ({step}")
        return "".join(pieces).strip(" ")

    def __repr__(self) -> str:
        return f"<Tree {self}>"

    def __eq__(self, other: object) -> bool:
        """Whether shape, labels and words are the same."""
        if not isinstance(other, Tree):
            return NotImplemented
        return list(_symbols(self)) == list(_symbols(other))

    def __hash__(self) -> int:
        return hash(tuple(_symbols(self)))


def without_brackets(word: str) -> str:
    """Returns a word as the Treebank writes it: with -LRB- and -RRB- for brackets."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


# A label where a constituent opens, a word's tree, or None where one closes.
Step = str | Tree | None


def walk(tree: Tree) -> Iterator[Step]:
    """Yields what one meets from left to right, each constituent's ends included."""
    waiting: list[Tree | None] = [tree]
    while waiting:
        node = waiting.pop()
        if node is None or node.word is not None:
            yield node
        else:
            yield node.label
            waiting.append(None)
            waiting.extend(reversed(node.children))


def grown(steps: Iterable[Step]) -> list[Tree]:
    """Returns the trees of a walk; a constituent over no word is left out.

    Args:
        steps: As `walk` yields them, of any number of trees, balanced.
    """
    open_: list[tuple[str, list[Tree]]] = [("", [])]
    for step in steps:
        if isinstance(step, str):
            open_.append((step, []))
        elif step is not None:
            open_[-1][1].append(step)
        else:
            label, children = open_.pop()
            if children:
                open_[-1][1].append(Tree(label, tuple(children)))
    return open_[0][1]


def _symbols(tree: Tree) -> Iterator[tuple[str | None, ...]]:
    for step in walk(tree):
        yield (step.label, step.word) if isinstance(step, Tree) else (step,)


def read_trees(lines: Iterable[str], name: str = "the trees") -> Iterator[Tree]:
    """Yields the trees of a text in Penn Treebank brackets, as they stand.

    Nothing is cleaned: the outermost bracket without a label, traces and function
    tags come as written (`t2t_keras.parsing.cleaning`). White space within a word, as
    the thin space of "3 1/2", becomes "_": a sentence has a blank between any two
    words, and must have as many as its tree.

    Args:
        lines: With any number of trees to a line and of lines to a tree.
        name: Of the file, for messages.

    Raises:
        UserError: If a bracket is not closed or closes nothing, a word has no part
            of speech of its own, text stands outside of all brackets, or a label has
            white space in it. The message names the line.
    """
    reader = _Reader(name)
    for number, line in enumerate(lines, start=1):
        for part in _PART.findall(line):
            tree = reader.take(part, number)
            if tree is not None:
                yield tree
    reader.finish()


class _Bracket:
    """A bracket that has been opened: what stands in it so far."""

    def __init__(self, line: int):
        self.line = line
        self.atoms: list[str] = []
        self.children: list[Tree] = []

    def closed(self) -> Tree:
        label = self.atoms[0] if self.atoms else ""
        word = self.atoms[1] if len(self.atoms) == 2 else None
        return Tree(label, tuple(self.children), word)


class _Reader:
    """Takes brackets, labels and words one by one, and gives trees."""

    def __init__(self, name: str):
        self._name = name
        self._open: list[_Bracket] = []

    def take(self, part: str, line: int) -> Tree | None:
        """Returns a tree if `part` was the end of one."""
        if part == "(":
            if self._open and len(self._open[-1].atoms) == 2:
                raise self._error(line, "a bracket opens beside a word")
            self._open.append(_Bracket(line))
        elif part != ")":
            self._take_atom(part, line)
        elif not self._open:
            raise self._error(line, "a bracket closes that was never opened")
        else:
            tree = self._open.pop().closed()
            if not self._open:
                return tree
            self._open[-1].children.append(tree)
        return None

    def _take_atom(self, atom: str, line: int) -> None:
        if not self._open:
            raise self._error(line, f"“{atom}” stands outside of all brackets")
        bracket = self._open[-1]
        if bracket.children or len(bracket.atoms) == 2:
            raise self._error(line, f"“{atom}” has no bracket of its own")
        if not bracket.atoms and (space := _SPACES_IN_A_WORD.search(atom)):
            # Whether a word follows it, or a label goes on, cannot be known.
            raise self._error(
                line, f"the label “{atom}” has U+{ord(space[0][0]):04X} in it"
            )
        bracket.atoms.append(_SPACES_IN_A_WORD.sub("_", atom))

    def finish(self) -> None:
        """Raises `UserError` if a tree has not ended."""
        if self._open:
            line = self._open[0].line
            raise self._error(line, "the tree that begins there is not closed")

    def _error(self, line: int, fault: str) -> UserError:
        return UserError(
            f"{self._name}, line {line}: {fault}. Trees are expected in Penn Treebank "
            "brackets with a part of speech for each word: "
            "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))."
        )
