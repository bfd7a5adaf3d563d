"""Cleaning of treebank trees before a parser learns from them or is scored.

The rules are the field's since Collins (1997), so that scores can be compared.
"""

from collections.abc import Iterator

from t2t_keras.parsing.trees import Step, Tree, build_trees, walk

# Empty elements: traces, dropped pronouns, units not spoken.
EMPTY_ELEMENT = "-NONE-"

# The root of a sentence whose words have no constituent in common. EVALB's usual
# parameters delete it from both sides, so that it counts neither for nor against.
ROOT = "TOP"

# Labels that treebanks and parsers give to the bracket around a sentence.
_OUTER = frozenset({"", ROOT, "ROOT", "S1"})

# The Treebank's own label for a constituent of unknown kind.
UNKNOWN = "X"


def clean_tree(tree: Tree) -> Tree | None:
    """Returns a tree as parsers are trained and scored on it.

    - Empty elements (-NONE-) are removed, and with them the constituents that are
      left without a word.
    - Labels lose function tags and indices, all from the first -, = or | on:
      NP-SBJ-1 and NP=2 become NP, PRT|ADVP becomes PRT. A label that begins with one
      of these is a name of its own and stays: -LRB-, -RRB-. Parts of speech only lose
      the text from a | on (an annotator's second guess).
    - The outermost bracket (no label, TOP, ROOT or S1) is removed if it holds one
      constituent and nothing else; otherwise it stays as TOP. Any other constituent
      without a label becomes an X.

    Cleaning again changes nothing. Constituents over one child of the same label,
    and over punctuation alone, stay: EVALB counts them.

    Returns:
        The tree; its root is a constituent. None if it had no words.

    >>> from t2t_keras.parsing.trees import read_trees
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
