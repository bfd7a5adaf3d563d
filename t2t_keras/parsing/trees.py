"""Constituency trees: reading Penn Treebank brackets, cleaning, traversal, printing.

Trees are cleaned before a parser learns from them or is scored. The rules are the
field's since Collins (1997), so that scores can be compared.

No function is recursive: memory is the only limit to the depth of a tree.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from t2t_keras.errors import UserError

# Treebanks are separated by ASCII's white space, as C's `isspace` has it.
_PART = re.compile(r"[()]|[^() \t\n\v\f\r]+")
# The other characters that end a word in a sentence (`t2t_keras.text.normalization`).
_SPACES_IN_A_WORD = re.compile("[\\s\u2581]+")

# Empty elements: traces, dropped pronouns, units not spoken.
EMPTY_ELEMENT = "-NONE-"

# The root of a sentence whose words have no constituent in common. EVALB's usual
# parameters delete it from both sides, so that it counts neither for nor against.
ROOT = "TOP"

# Labels that treebanks and parsers give to the bracket around a sentence.
_OUTER = frozenset({"", ROOT, "ROOT", "S1"})

# The Treebank's own label for a constituent of unknown kind.
UNKNOWN = "X"


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A constituent over other trees, or a word with its part of speech.

    Attributes:
        label: Label of the constituent (NP-SBJ), or the word's part of speech (NNS).
            The Treebank's outermost bracket has none: "".
        children: Children of a constituent, in the order of the words; a word has none.
        word: The word; None for a constituent.

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
                pieces.append(f" ({step.label} {escape_brackets(step.word or '')})")
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


def escape_brackets(word: str) -> str:
    """Returns a word as the Treebank writes it: with -LRB- and -RRB- for brackets."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


# A label where a constituent opens, a word's tree, or None where one closes.
Step = str | Tree | None


def walk(tree: Tree) -> Iterator[Step]:
    """Yields words, openings and closings of constituents, from left to right."""
    waiting: list[Tree | None] = [tree]
    while waiting:
        node = waiting.pop()
        if node is None or node.word is not None:
            yield node
        else:
            yield node.label
            waiting.append(None)
            waiting.extend(reversed(node.children))


def build_trees(steps: Iterable[Step]) -> list[Tree]:
    """Returns the trees of a walk, without constituents over no word.

    Args:
        steps: Balanced steps of any number of trees, as `walk` yields them.
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
    """Yields the trees of a text in Penn Treebank brackets, as written.

    Nothing is removed: the outermost bracket without a label, traces and function
    tags stay (`clean_tree`). White space within a word, as
    the thin space of "3 1/2", becomes "_": a sentence has a blank between any two
    words, and as many words as its tree.

    Args:
        lines: Any number of trees to a line and of lines to a tree.
        name: Name of the file, for messages.

    Raises:
        UserError: If a bracket is not closed or closes nothing, a word has no part
            of speech of its own, text is outside of all brackets, or a label has
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
    """Contents so far of a bracket that has been opened."""

    def __init__(self, line: int):
        self.line = line
        self.atoms: list[str] = []
        self.children: list[Tree] = []

    def to_tree(self) -> Tree:
        label = self.atoms[0] if self.atoms else ""
        word = self.atoms[1] if len(self.atoms) == 2 else None
        return Tree(label, tuple(self.children), word)


class _Reader:
    """Parser of brackets, labels and words, one at a time, into trees."""

    def __init__(self, name: str):
        self._name = name
        self._open: list[_Bracket] = []

    def take(self, part: str, line: int) -> Tree | None:
        """Returns a tree if `part` ends one."""
        if part == "(":
            if self._open and len(self._open[-1].atoms) == 2:
                raise self._error(line, "a bracket opens beside a word")
            self._open.append(_Bracket(line))
        elif part != ")":
            self._take_atom(part, line)
        elif not self._open:
            raise self._error(line, "a bracket closes that was never opened")
        else:
            tree = self._open.pop().to_tree()
            if not self._open:
                return tree
            self._open[-1].children.append(tree)
        return None

    def _take_atom(self, atom: str, line: int) -> None:
        if not self._open:
            raise self._error(line, f"“{atom}” is outside of all brackets")
        bracket = self._open[-1]
        if bracket.children or len(bracket.atoms) == 2:
            raise self._error(line, f"“{atom}” has no bracket of its own")
        if not bracket.atoms and (space := _SPACES_IN_A_WORD.search(atom)):
            # It may end the label or continue it.
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


def clean_tree(tree: Tree) -> Tree | None:
    """Returns a tree as parsers are trained and scored on it; None without words.

    - Empty elements (-NONE-) are removed, and with them the constituents that are
      left without a word.
    - Labels lose function tags and indices, all from the first -, = or | on:
      NP-SBJ-1 and NP=2 become NP, PRT|ADVP becomes PRT. A label that begins with one
      of these is a name of its own and stays: -LRB-, -RRB-. Parts of speech only lose
      the text from a | on (an annotator's second guess).
    - The outermost bracket (no label, TOP, ROOT or S1) is removed if it holds one
      constituent and nothing else; otherwise it stays as TOP. Any other constituent
      without a label becomes an X.

    The root is a constituent. Cleaning again changes nothing. Constituents over one
    child of the same label, and over punctuation alone, stay: EVALB counts them.

    >>> trace = "( (S (NP-SBJ (-NONE- *-1)) (VP-2 (VB Go) (PRT|ADVP (RB on)))))"
    >>> print(clean_tree(*read_trees([trace])))
    (S (VP (VB Go) (PRT (RB on))))
    """
    trees = build_trees(_clean_steps(tree))
    if not trees:
        return None
    if trees[0].word is not None:
        return Tree(ROOT, (trees[0],))
    return _without_outer_bracket(trees[0])


def _clean_steps(tree: Tree) -> Iterator[Step]:
    outermost = True
    for step in walk(tree):
        if isinstance(step, Tree):
            if step.label != EMPTY_ELEMENT:
                yield Tree(_cut(step.label, "|") or UNKNOWN, word=step.word)
        elif step is None:
            yield None
        else:
            yield _cut(step, "-=|") or ("" if outermost else UNKNOWN)
            outermost = False


def _cut(label: str, ends: str) -> str:
    """Returns a label up to the first of `ends`, unless it starts with one."""
    if label == EMPTY_ELEMENT or (label and label[0] in ends):
        return label
    for position, character in enumerate(label):
        if character in ends:
            return label[:position]
    return label


def _without_outer_bracket(tree: Tree) -> Tree:
    while tree.label in _OUTER:
        first, *others = tree.children
        if others or first.word is not None:
            return Tree(ROOT, tree.children)
        tree = first
    return tree
