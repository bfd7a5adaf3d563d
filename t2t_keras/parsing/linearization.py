"""A tree as a line of symbols, and any line of symbols as a tree (ADR 0021).

The form is that of Vinyals et al., "Grammar as a Foreign Language" (2015), with parts
of speech: every constituent's opening and closing, labeled, and for each word its
part of speech. The words themselves are left out: they are the other side.
"""

from collections.abc import Iterator, Sequence

from t2t_keras.parsing.alignment import aligned
from t2t_keras.parsing.cleaning import ROOT, UNKNOWN
from t2t_keras.parsing.punctuation import OWN_TAGS, kind_of_tag, kind_of_word
from t2t_keras.parsing.trees import Step, Tree, grown, walk, without_brackets


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
    3. If there are as many parts of speech as words, the first belongs to the first
       word, and so on. If not, they are aligned with the fewest changes, where one
       knows of a word only whether it is a punctuation mark, and which
       (`t2t_keras.parsing.alignment`). Parts of speech that no word gets are dropped. A
       word that gets none, or not one of its kind, has its own: a mark its mark's, any
       other word NN. Words that get none stand right after the word before them, the
       first ones right before the next; but those after the last that gets one stand
       after the last symbol, within what is open there.
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
    >>> print(repaired("(S (NP DT )NP (VP VBZ )VP . )S", ["the", "dog", "barks", "!"]))
    (S (NP (DT the)) (VP (VBZ dog) (NN barks)) (. !))
    """
    parts = symbols.split()
    tags = [_name(part) for part in parts if part[0] not in "()"]
    trees = grown(_repaired_steps(parts, _leaves(tags, words)))
    constituents = [index for index, tree in enumerate(trees) if tree.word is None]
    if len(constituents) != 1:
        return Tree(ROOT, tuple(trees))
    (index,) = constituents
    root = trees[index]
    return Tree(root.label, (*trees[:index], *root.children, *trees[index + 1 :]), None)


def _name(symbol: str) -> str:
    return symbol.replace("(", "").replace(")", "")


def _leaves(tags: Sequence[str], words: Sequence[str]) -> list[list[Tree]]:
    """Returns the words that stand in place of each part of speech, and at the end."""
    tag_kinds = [kind_of_tag(tag) for tag in tags]
    kinds = [kind_of_word(without_brackets(word)) for word in words]
    alignment = aligned(tag_kinds, kinds)
    places = _places(alignment, len(tags))
    leaves: list[list[Tree]] = [[] for _ in range(len(tags) + 1)]
    for word, kind, tag, place in zip(words, kinds, alignment, places, strict=True):
        label = OWN_TAGS[kind]
        if tag is not None and (len(tags) == len(words) or tag_kinds[tag] == kind):
            label = tags[tag]
        leaves[place].append(Tree(label, word=word))
    return leaves


def _places(alignment: Sequence[int | None], end: int) -> Iterator[int]:
    """Yields for each word in place of which part of speech it stands, or the end."""
    # The next part of speech that is given, from each word on.
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


def _repaired_steps(
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
