from pathlib import Path

from t2t_keras.parsing.bracket_scores import sentence_scores
from t2t_keras.parsing.tree_scores import evalb_table, summary
from t2t_keras.parsing.trees import Tree, read_trees
from tests.parsing.evalb import own_table

# Invented pairs, and the output of EVALB (January 2006, with COLLINS.prm and
# -e 10000000), without the sign of NaNs.
PRINTED = Path(__file__).parent / "evalb_printed"


def printed_pairs() -> list[tuple[Tree, Tree]]:
    gold, test = (
        list(read_trees((PRINTED / name).read_text(encoding="utf-8").splitlines()))
        for name in ("gold.mrg", "test.mrg")
    )
    return list(zip(gold, test, strict=True))


def test_the_table_equals_the_output_of_evalb():
    expected = (PRINTED / "printed.txt").read_text(encoding="utf-8")
    assert own_table(printed_pairs()).splitlines() == expected.splitlines()


def test_without_matches_f1_is_nan():
    tree = Tree("S", (Tree("NN", word="a"),))
    other = Tree("NP", (Tree("NN", word="a"),))
    text = summary(list(sentence_scores([tree], [other])))
    assert "Bracketing FMeasure       =    nan\n" in text
    # The line of totals has no percentages if one side has no brackets.
    flat = Tree("TOP", (Tree("NN", word="a"),))
    table = evalb_table(list(sentence_scores([flat], [other])))
    assert "\n      1     1   100.00\n=== Summary" in table


def test_the_cutoff_length_is_printed_and_counts_punctuation():
    tree = Tree("S", tuple(Tree(tag, word="a") for tag in ("NN", ",", "NN", "-NONE-")))
    scores = list(sentence_scores([tree], [tree]))
    for length, number in ((2, 0), (3, 1)):
        short = summary(scores, length).split(f"-- len<={length} --\n")[1]
        assert short.startswith(f"Number of sentence        = {number:6d}\n")
