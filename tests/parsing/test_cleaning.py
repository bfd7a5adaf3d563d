from hypothesis import given

from t2t_keras.parsing.trees import Tree, clean_tree, read_trees
from tests.parsing.random_trees import TREES


def cleaned_text(text: str) -> str:
    (tree,) = read_trees([text])
    return str(clean_tree(tree))


CLEANED_BY_HAND = (
    ("( (S-TPC-1 (NP-SBJ (DT a))))", "(S (NP (DT a)))"),
    ("(NP=2 (NP-SBJ=1-2 (PRP$ a)))", "(NP (NP (PRP$ a)))"),
    (
        "(S (-LRB- -LRB-) (NP (-RRB- -RRB-)))",
        "(S (-LRB- -LRB-) (NP (-RRB- -RRB-)))",
    ),
    ("(ADVP|PRT (RB|IN on))", "(ADVP (RB on))"),
    # Traces, and constituents that hold only traces, at any depth.
    (
        "(S (NP-SBJ (-NONE- *-1)) (VP (VB go) (SBAR (-NONE- 0) (S (-NONE- *)))))",
        "(S (VP (VB go)))",
    ),
    ("(S (NP) (VP (VB go)))", "(S (VP (VB go)))"),
    # A hyphen in a tag does not mark a function.
    ("(S (HYPH -) (AFX-2 pre))", "(S (HYPH -) (AFX-2 pre))"),
    ("(S (| |) (-X-1 (NN a)) (=1 (NN b)))", "(S (| |) (-X-1 (NN a)) (=1 (NN b)))"),
    ("(S (: --) (`` ``) ('' ''))", "(S (: --) (`` ``) ('' ''))"),
    # Only the outermost bracket is removed, and only if it has a single child.
    ("(TOP (S (TOP (NN a))))", "(S (TOP (NN a)))"),
    ("(ROOT (TOP (S (NN a))))", "(S (NN a))"),
    ("(S1 (FRAG (NN a)) (. .))", "(TOP (FRAG (NN a)) (. .))"),
    ("( (NN a))", "(TOP (NN a))"),
    ("( (NP (-NONE- *)) (NN a))", "(TOP (NN a))"),
    ("(NN a)", "(TOP (NN a))"),
    ("( (S ((NN a))))", "(S (X (NN a)))"),
    # A label over the same label is kept, because EVALB counts both.
    ("(NP (NP (-NONE- *)) (NP (NN a)))", "(NP (NP (NN a)))"),
)


def test_examples():
    for text, expected in CLEANED_BY_HAND:
        assert cleaned_text(text) == expected, text


def test_a_tree_without_words_is_none():
    for text in ("(())", "( (S (NP (-NONE- *))))", "(-NONE- *)"):
        assert cleaned_text(text) == "None", text


@given(TREES)
def test_words_stay_and_cleaning_again_changes_nothing(tree):
    once = clean_tree(Tree("", (tree, Tree("NP", (Tree("-NONE-", word="*"),)))))
    assert once is not None and once.word is None
    assert clean_tree(once) == once
    assert [leaf.word for leaf in once.leaves()] == [
        leaf.word for leaf in tree.leaves()
    ]
