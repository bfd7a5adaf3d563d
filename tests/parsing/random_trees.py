"""Random trees for property tests: deep, unary, flat, with unusual labels and words."""

from hypothesis import strategies as st

from t2t_keras.parsing.trees import Tree

LABELS = st.sampled_from(
    ["S", "NP", "VP", "PP", "ADVP", "PRT", "X", "TOP", "WHNP", "Ü"]
)
TAGS = st.sampled_from(
    [
        "NN",
        "DT",
        "VBZ",
        "PRP$",
        "-LRB-",
        "-RRB-",
        ",",
        ".",
        ":",
        "``",
        "''",
        "$",
        "ADVP",
    ]
)
WORDS = st.sampled_from(
    [
        "dog",
        "sleeps",
        ".",
        ",",
        "``",
        "''",
        "-LRB-",
        "n't",
        "größer",
        "犬",
        "%",
        "1\\/2",
    ]
)

LEAVES = st.builds(lambda tag, word: Tree(tag, word=word), TAGS, WORDS)
_INNER = st.recursive(
    LEAVES,
    lambda trees: st.builds(
        lambda label, children: Tree(label, tuple(children)),
        LABELS,
        st.lists(trees, min_size=1, max_size=4),
    ),
    max_leaves=12,
)
TREES = st.builds(
    lambda label, children: Tree(label, tuple(children)),
    LABELS,
    st.lists(_INNER, min_size=1, max_size=4),
)


def deep_tree(levels: int) -> Tree:
    """Returns a tree of many levels, with a word at two of three levels."""
    tree = Tree("NN", word="end")
    for level in range(levels):
        word = Tree("DT", word=f"w{level}")
        tree = Tree(f"L{level % 7}", (word, tree) if level % 3 else (tree,))
    return tree
