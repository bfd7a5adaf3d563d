"""A tree as a line of symbols, and any line of symbols as a tree (ADR 0021).

The form is that of Vinyals et al., "Grammar as a Foreign Language" (2015), with parts
of speech: every constituent's opening and closing, labelled, and for each word its
part of speech. The words themselves are left out: they are the other side.
"""

from collections.abc import Iterator, Sequence

from t2t_keras.parsing.cleaning import ROOT, UNKNOWN
from t2t_keras.parsing.trees import Step, Tree, grown, walk

# The part of speech of a word that was given none: the most frequent one.
DEFAULT_TAG = "NN"


def words_of(tree: Tree) -> list[str]:
    """Returns the words of a tree, from left to right; joined by blanks, its source."""
    return [leaf.word or "" for leaf in tree.leaves()]


def linearized(tree: Tree) -> str:
    """Returns the symbols of a tree, separated by single blanks.

    Args:
        tree: Cleaned (`t2t_keras.parsing.cleaning`): every constituent has a label.

    >>> from t2t_keras.parsing.trees import read_trees
    >>> print(linearized(*read_trees(["(S (NP (DT the) (NN dog)) (. .))"])))
    (S (NP DT NN )NP . )S
    """
    symbols, open_ = [], []
    for step in walk(tree):
        if isinstance(step, Tree):
            symbols.append(step.label)
        elif step is None:
            symbols.append(f"){open_.pop()}")
        else:
            symbols.append(f"({step}")
            open_.append(step)
    return " ".join(symbols)


def repaired(symbols: str, words: Sequence[str]) -> Tree:
    """Returns the tree over exactly these words that some symbols describe best.

    Any symbols will do, as an untrained model writes them. In order:

    1. Symbols are what white space separates. One that begins with "(" opens a
       constituent, whose label is the rest; one that begins with ")" closes one,
       and what follows does not matter; any other is a part of speech. Further
       brackets within a label or a part of speech are taken out of it, and a
       constituent without a label is an X.
    2. A closing with nothing open before it is dropped.
    3. The first part of speech belongs to the first word, and so on. Those beyond
       the last word are dropped; words beyond the last one get an NN each, after
       the last symbol, within what is open there.
    4. What is open at the end is closed there.
    5. Constituents over no word are dropped.
    6. If exactly one constituent stands outside of all others, it takes in the words
       that stand outside of it. If it is none, or several, a TOP goes over all.

    The symbols that `linearized` gives of a tree whose root is a constituent, and
    whose every constituent holds a word, come back as that tree.

    Args:
        symbols: With any white space between them.
        words: Of the sentence. Without any, the tree is an empty TOP.

    >>> print(repaired("(NP DT )VP )S (VP )VP", ["the", "dog"]))
    (NP (DT the) (NN dog))
    """
    trees = grown(_repaired_steps(symbols.split(), words))
    constituents = [index for index, tree in enumerate(trees) if tree.word is None]
    if len(constituents) != 1:
        return Tree(ROOT, tuple(trees))
    (index,) = constituents
    root = trees[index]
    return Tree(root.label, (*trees[:index], *root.children, *trees[index + 1 :]), None)


def _repaired_steps(symbols: Sequence[str], words: Sequence[str]) -> Iterator[Step]:
    depth, tagged = 0, 0
    for symbol in symbols:
        name = symbol.replace("(", "").replace(")", "")
        if symbol.startswith("("):
            depth += 1
            yield name or UNKNOWN
        elif symbol.startswith(")"):
            if depth:
                depth -= 1
                yield None
        elif tagged < len(words):
            yield Tree(name, word=words[tagged])
            tagged += 1
    for word in words[tagged:]:
        yield Tree(DEFAULT_TAG, word=word)
    yield from [None] * depth
