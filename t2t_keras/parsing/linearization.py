"""Linearization: a tree as a line of symbols, and any line as a tree (ADR 0021).

The form is that of Vinyals et al., "Grammar as a Foreign Language" (2015), with parts
of speech: the labeled opening and closing of every constituent, and the part of speech
of each word. The words themselves are left out: they are the source.
"""

from collections.abc import Iterator, Sequence

from t2t_keras.parsing.tag_matching import OWN_TAGS, align_tags, tag_kind, word_kind
from t2t_keras.parsing.trees import (
    ROOT,
    UNKNOWN,
    Step,
    Tree,
    build_trees,
    escape_brackets,
    walk,
)


def tree_words(tree: Tree) -> list[str]:
    """Returns the words of a tree, from left to right; joined by blanks, its source."""
    return [leaf.word or "" for leaf in tree.leaves()]


def linearize(tree: Tree) -> str:
    """Returns the symbols of a clean tree (`clean_tree`), separated by single blanks.

    >>> from t2t_keras.parsing.trees import read_trees
    >>> print(linearize(*read_trees(["(S (NP (DT the) (NN dog)) (. .))"])))
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


def repair_tree(symbols: str, words: Sequence[str]) -> Tree:
    """Returns the tree over exactly these words that some symbols describe best.

    Any symbols will do, as an untrained model writes them. In order:

    1. White space separates symbols. One that begins with "(" opens a
       constituent, whose label is the rest; one that begins with ")" closes one,
       and what follows does not matter; any other is a part of speech. Further
       brackets within a label or a part of speech are taken out of it, and a
       constituent without a label is an X.
    2. A closing bracket without an open constituent is dropped.
    3. Words and parts of speech are paired.

       - If their numbers are equal, they are paired in order. Otherwise they are
         aligned with the fewest changes, for which a word is only known as a certain
         punctuation mark or as no mark (`t2t_keras.parsing.tag_matching`). Parts of
         speech without a word are dropped.
       - A word whose part of speech is missing or of the wrong kind gets a default:
         its own for a punctuation mark, NN for any other word.
       - A word without a part of speech is placed right after the word before it; at
         the beginning, right before the first word that has one; and after the last
         word that has one, after the last symbol, in the constituents open there.
    4. Constituents open at the end are closed there.
    5. Constituents over no word are dropped.
    6. If exactly one constituent is outside of all others, it takes in the words
       outside of it. If there are none or several, a TOP encloses all.

    The symbols that `linearize` gives of a tree whose root is a constituent, and
    whose every constituent holds a word, come back as that tree.

    Args:
        symbols: With any white space between them.
        words: Words of the sentence. Without any, the tree is an empty TOP.

    >>> print(repair_tree("(NP DT )VP )S (VP )VP", ["the", "dog"]))
    (NP (DT the) (NN dog))
    >>> symbols = "(S (NP DT )NP (VP VBZ )VP . )S"
    >>> print(repair_tree(symbols, ["the", "dog", "barks", "!"]))
    (S (NP (DT the)) (VP (VBZ dog) (NN barks)) (. !))
    """
    parts = symbols.split()
    tags = [_name(part) for part in parts if part[0] not in "()"]
    trees = build_trees(_repair_steps(parts, _leaves(tags, words)))
    constituents = [index for index, tree in enumerate(trees) if tree.word is None]
    if len(constituents) != 1:
        return Tree(ROOT, tuple(trees))
    (index,) = constituents
    root = trees[index]
    return Tree(root.label, (*trees[:index], *root.children, *trees[index + 1 :]), None)


def _name(symbol: str) -> str:
    return symbol.replace("(", "").replace(")", "")


def _leaves(tags: Sequence[str], words: Sequence[str]) -> list[list[Tree]]:
    """Returns the words that replace each part of speech, and those at the end."""
    tag_kinds = [tag_kind(tag) for tag in tags]
    kinds = [word_kind(escape_brackets(word)) for word in words]
    alignment = align_tags(tag_kinds, kinds)
    places = _places(alignment, len(tags))
    leaves: list[list[Tree]] = [[] for _ in range(len(tags) + 1)]
    for word, kind, tag, place in zip(words, kinds, alignment, places, strict=True):
        label = OWN_TAGS[kind]
        if tag is not None and (len(tags) == len(words) or tag_kinds[tag] == kind):
            label = tags[tag]
        leaves[place].append(Tree(label, word=word))
    return leaves


def _places(alignment: Sequence[int | None], end: int) -> Iterator[int]:
    """Yields the index of the part of speech that each word replaces, or the end."""
    # The next part of speech that a word gets, from each word on.
    coming = [end]
    for tag in reversed(alignment):
        coming.append(coming[-1] if tag is None else tag)
    place = coming[-1]
    for tag, following in zip(alignment, reversed(coming), strict=False):
        if tag is not None:
            place = tag
        elif following == end:
            place = end
        yield place


def _repair_steps(
    symbols: Sequence[str], leaves: Sequence[Sequence[Tree]]
) -> Iterator[Step]:
    depth, tagged = 0, 0
    for symbol in symbols:
        if symbol.startswith("("):
            depth += 1
            yield _name(symbol) or UNKNOWN
        elif symbol.startswith(")"):
            if depth:
                depth -= 1
                yield None
        else:
            yield from leaves[tagged]
            tagged += 1
    yield from leaves[tagged]
    yield from [None] * depth
