import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.recombination import Recombination, phrases, word_count
from t2t_keras.parsing.trees import Tree, read_trees, walk
from tests.parsing.random_trees import TREES, deep_tree


def parse_trees(*texts: str) -> list[Tree]:
    return list(read_trees(texts))


def spans(tree: Tree) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Returns label and leaves of every constituent, from the tree's walk."""
    open_, constituents = [], []
    for step in walk(tree):
        if isinstance(step, str):
            open_.append((step, []))
        elif step is None:
            label, leaves = open_.pop()
            constituents.append((label, tuple(leaves)))
        else:
            for _, leaves in open_:
                leaves.append((step.label, step.word))
    return constituents


def test_phrases_are_the_constituents_of_2_to_15_words_each_once():
    long_phrase = " ".join(f"(NN w{number})" for number in range(16))
    unique = phrases(
        parse_trees(
            "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN dog))))",
            f"(S (NP (NN one)) (X {long_phrase}))",
        )
    )
    assert sorted(map(str, unique)) == [
        "(NP (DT the) (NN dog))",
        "(VP (VBZ sees) (NP (DT the) (NN dog)))",
    ]


def test_a_constituent_is_replaced_by_another_with_its_label():
    given_trees = parse_trees(
        "(S (NP (PRP I)) (VP (VBP run)))", "(S (NP (PRP you)) (VP (VBP walk)))"
    )
    recombination = Recombination(given_trees)
    rng = np.random.default_rng(0)
    counts = collections.Counter(
        str(recombination.exchange(given_trees[0], rng)) for _ in range(2000)
    )
    frequencies = {  # A quarter is replaced, half of it by that of the other tree.
        (subject, verb): (0.125 if subject == "you" else 0.875)
        * (0.125 if verb == "walk" else 0.875)
        for subject in ("I", "you")
        for verb in ("run", "walk")
    }
    for (subject, verb), expected in frequencies.items():
        text = f"(S (NP (PRP {subject})) (VP (VBP {verb})))"
        assert counts[text] / 2000 == pytest.approx(expected, abs=0.03)
    assert sum(counts.values()) == 2000


def test_constituents_of_very_different_length_are_not_exchanged():
    """For 5 words, the limits are 0.6 x 5 = 3 and 1.5 x 5 + 1 = 8."""
    by_words = {count: " ".join(["(NN a)"] * count) for count in (2, 3, 5, 8, 9)}
    treebank = parse_trees(*(f"(S (NP {words}) (. .))" for words in by_words.values()))
    recombination = Recombination(treebank)
    rng = np.random.default_rng(0)
    lengths = {
        word_count(recombination.exchange(treebank[2], rng)) - 1 for _ in range(300)
    }
    assert lengths == {3, 5, 8}


def test_the_same_seed_makes_the_same_trees():
    treebank = parse_trees(
        "(S (NP (NN a)) (VP (VB b)))", "(S (NP (NN c)) (VP (VB d) (NP (NN e))))"
    )

    def recombine(seed: int) -> list[str]:
        rng = np.random.default_rng(seed)
        recombination = Recombination(treebank)
        return [str(recombination.exchange(tree, rng)) for tree in treebank * 20]

    assert recombine(1) == recombine(1) != recombine(2)


@given(st.lists(TREES, min_size=1, max_size=4), st.integers(0, 2**32))
def test_recombined_trees_consist_of_the_treebanks_phrases(treebank, seed):
    recombination = Recombination(treebank)
    whole = {span for tree in treebank for span in spans(tree)}
    leaves = {leaf for _, words in whole for leaf in words}
    labels = {label for label, _ in whole}
    tree = treebank[0]
    recombined = recombination.exchange(tree, np.random.default_rng(seed))
    assert recombined.label == tree.label
    for label, words in spans(recombined):
        assert label in labels
        assert words
        assert set(words) <= leaves


def test_a_tree_deeper_than_pythons_stack():
    tree = deep_tree(1200)
    recombined = Recombination([tree]).exchange(tree, np.random.default_rng(0))
    assert recombined.label == tree.label
    short = [words for _, words in spans(tree) if 2 <= len(words) <= 15]
    assert len(list(phrases([tree]))) == len(short) > 0
