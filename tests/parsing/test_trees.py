import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.errors import UserError
from t2t_keras.parsing.linearization import tree_words
from t2t_keras.parsing.trees import Tree, build_trees, read_trees, walk
from t2t_keras.text.normalization import WHITE_SPACE_RANGES, normalize
from tests.parsing.random_trees import TREES, deep_tree


def read(text: str) -> list[Tree]:
    return list(read_trees(io.StringIO(text), "a.mrg"))


def nested(tree: Tree):
    """Returns a tree as tuples, by recursion; uses only its attributes."""
    if tree.word is not None:
        return (tree.label, tree.word)
    return (tree.label, [nested(child) for child in tree.children])


def bracketed(tree: Tree, space: str) -> str:
    if tree.word is not None:
        return f"({space}{tree.label} {tree.word}{space})"
    inner = space.join(bracketed(child, space) for child in tree.children)
    return f"({tree.label}{space}{inner})"


def one_line(tree: Tree) -> str:
    if tree.word is not None:
        return f"({tree.label} {tree.word})"
    return f"({tree.label} {' '.join(one_line(child) for child in tree.children)})"


def test_one_tree_over_several_lines_with_an_outer_bracket():
    (tree,) = read(
        "( (S\n    (NP-SBJ-1 (DT the)\n (NN dog) )\n\t(VP (VBZ sleeps))(. .)))\n"
    )
    assert nested(tree) == (
        "",
        [
            (
                "S",
                [
                    ("NP-SBJ-1", [("DT", "the"), ("NN", "dog")]),
                    ("VP", [("VBZ", "sleeps")]),
                    (".", "."),
                ],
            )
        ],
    )
    assert str(tree) == "( (S (NP-SBJ-1 (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"


def test_many_trees_in_a_line_and_none():
    trees = read("(A (b c))(D (e f)) (())\n\n(G(h i))")
    assert [nested(tree) for tree in trees] == [
        ("A", [("b", "c")]),
        ("D", [("e", "f")]),
        ("", [("", [])]),
        ("G", [("h", "i")]),
    ]
    assert read(" \n\n") == []


@given(st.lists(TREES, max_size=4), st.sampled_from([" ", "\n", "\t \n  "]))
def test_any_spacing_is_read_and_one_line_is_printed(trees, space):
    text = space.join(bracketed(tree, space) for tree in trees)
    parsed = read(text)
    assert [nested(tree) for tree in parsed] == [nested(tree) for tree in trees]
    assert parsed == trees
    assert [str(tree) for tree in parsed] == [one_line(tree) for tree in trees]


@given(TREES, TREES)
def test_trees_are_equal_if_their_parts_are(one, other):
    assert (one == other) == (nested(one) == nested(other))
    assert build_trees(walk(one)) == [one]
    if one == other:
        assert hash(one) == hash(other)


def test_five_thousand_levels():
    tree = deep_tree(5_000)
    (parsed,) = read(str(tree))
    assert parsed == tree
    assert hash(parsed) == hash(tree)
    assert len(list(parsed.leaves())) == 1 + sum(1 for n in range(5_000) if n % 3)
    assert len(repr(parsed)) > 50_000


def test_brackets_in_a_word_are_escaped_as_in_the_treebank():
    tree = Tree("NP", (Tree("-LRB-", word="("), Tree("NN", word="a)b")))
    assert str(tree) == "(NP (-LRB- -LRB-) (NN a-RRB-b))"


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("(S (NN a))\n(S (NP\n(NN a))\n", 2, "not closed"),
        ("(S (NN a)))\n", 1, "closes that was never opened"),
        ("\n(S (NN a b))", 2, "“b” has no bracket of its own"),
        ("(S (NN a) b)", 1, "“b” has no bracket of its own"),
        ("(S (NN a\n(DT b)))", 2, "a bracket opens beside a word"),
        ("(S (NN a))\nb", 2, "“b” is outside of all brackets"),
    ],
)
def test_a_malformed_tree_is_refused_with_its_line(text, line, fault):
    with pytest.raises(UserError, match=f"a.mrg, line {line}: .*{fault}") as caught:
        read(text)
    assert "Penn Treebank" in str(caught.value)


def test_only_ascii_white_space_separates():
    """Other white space becomes "_" in words and is refused in labels.

    In a sentence it would split a word. In a label it could hide a missing space.
    """
    spaces = [chr(c) for a, b in WHITE_SPACE_RANGES for c in range(a, b + 1)]
    separators = [space for space in spaces if space in " \t\n\v\f\r"]
    assert len(separators) == 6
    for space in separators:
        assert nested(*read(f"(NP{space}(CD{space}1))")) == ("NP", [("CD", "1")])
    for space in set(spaces) - set(separators):
        name = f"U+{ord(space):04X}"
        parsed = nested(*read(f"(NP (CD 1{space}{space}000))"))
        assert parsed == ("NP", [("CD", "1_000")]), name
        for tree in (f"(CD{space}1)", f"(CD{space} 1)", f"(NP{space}(CD 1))"):
            with pytest.raises(UserError) as caught:
                read(f"(S {tree} (NN b))")
            assert "line 1: the label" in str(caught.value), name
            assert f"has {name} in it" in str(caught.value), name


def test_a_word_with_other_white_space_stays_one_word():
    treebank = "(S (NP (CD 3\u20091/2)) (VP (VBZ is\u00a0n't)) (. .))"
    (tree,) = read(treebank)
    assert normalize(" ".join(tree_words(tree))).split() == ["3_1/2", "is_n't", "."]
    assert nested(*read(str(tree))) == nested(tree)
