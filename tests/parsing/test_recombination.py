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
    """Label and leaves of every constituent, by brackets counted in its walk."""
    open_, found = [], []
    for step in walk(tree):
        if isinstance(step, str):
            open_.append((step, []))
        elif step is None:
            label, leaves = open_.pop()
            found.append((label, tuple(leaves)))
        else:
            for _, leaves in open_:
                leaves.append((step.label, step.word))
    return found


def test_phrases_are_the_constituents_of_2_to_15_words_each_once():
    long_phrase = " ".join(f"(NN w{number})" for number in range(16))
    found = phrases(
        parse_trees(
            "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN dog))))",
            f"(S (NP (NN one)) (X {long_phrase}))",
        )
    )
    assert sorted(map(str, found)) == [
        "(NP (DT the) (NN dog))",
        "(VP (VBZ sees) (NP (DT the) (NN dog)))",
    ]


def test_a_constituent_gives_way_to_another_of_its_label():
    given_trees = parse_trees(
        "(S (NP (PRP I)) (VP (VBP run)))", "(S (NP (PRP you)) (VP (VBP walk)))"
    )
    recombination = Recombination(given_trees)
    rng = np.random.default_rng(0)
    made = collections.Counter(
        str(recombination.exchange(given_trees[0], rng)) for _ in range(2000)
    )
    share = {  # A quarter is drawn anew, half of that from the other tree.
        (subject, verb): (0.125 if subject == "you" else 0.875)
        * (0.125 if verb == "walk" else 0.875)
        for subject in ("I", "you")
        for verb in ("run", "walk")
    }
    for (subject, verb), expected in share.items():
        text = f"(S (NP (PRP {subject})) (VP (VBP {verb})))"
        assert made[text] / 2000 == pytest.approx(expected, abs=0.03)
    assert sum(made.values()) == 2000


def test_one_of_another_length_is_not_taken():
    """Of 5 words: from 0.6 x 5 = 3 to 1.5 x 5 + 1 = 8."""
    by_words = {count: " ".join(["(NN a)"] * count) for count in (2, 3, 5, 8, 9)}
    treebank = parse_trees(*(f"(S (NP {words}) (. .))" for words in by_words.values()))
    recombination = Recombination(treebank)
    rng = np.random.default_rng(0)
    made = {
        word_count(recombination.exchange(treebank[2], rng)) - 1 for _ in range(300)
    }
    assert made == {3, 5, 8}


def test_the_same_seed_makes_the_same_trees():
    treebank = parse_trees(
        "(S (NP (NN a)) (VP (VB b)))", "(S (NP (NN c)) (VP (VB d) (NP (NN e))))"
    )

    def made(seed: int) -> list[str]:
        rng = np.random.default_rng(seed)
        recombination = Recombination(treebank)
        return [str(recombination.exchange(tree, rng)) for tree in treebank * 20]

    assert made(1) == made(1) != made(2)


@given(st.lists(TREES, min_size=1, max_size=4), st.integers(0, 2**32))
def test_what_is_made_is_made_of_the_treebank_s_phrases(treebank, seed):
    recombination = Recombination(treebank)
    whole = {span for tree in treebank for span in spans(tree)}
    leaves = {leaf for _, words in whole for leaf in words}
    labels = {label for label, _ in whole}
    tree = treebank[0]
    found = recombination.exchange(tree, np.random.default_rng(seed))
    assert found.label == tree.label
    for label, words in spans(found):
        assert label in labels
        assert words
        assert set(words) <= leaves


def test_a_label_of_its_own_is_kept():
    recombination = Recombination(parse_trees("(S (NP (NN a)))"))
    (tree,) = parse_trees("(S (QP (CD 1) (CD 2)) (RRC (VBN b)))")
    rng = np.random.default_rng(0)
    assert {recombination.exchange(tree, rng) for _ in range(50)} == {tree}


def test_a_tree_deeper_than_the_stack_is_no_problem():
    tree = deep_tree(1200)
    found = Recombination([tree]).exchange(tree, np.random.default_rng(0))
    assert found.label == tree.label
    short = [words for _, words in spans(tree) if 2 <= len(words) <= 15]
    assert len(list(phrases([tree]))) == len(short) > 0
