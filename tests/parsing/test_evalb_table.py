import re
import shutil
from pathlib import Path

import pytest

from t2t_keras.parsing.bracket_scores import sentence_scores
from t2t_keras.parsing.tree_scores import evalb_table, summary
from t2t_keras.parsing.trees import Tree, read_trees
from tests.parsing.evalb import fits_evalb, own_table, random_pairs, run_evalb

# Invented pairs, and the output of EVALB (January 2006, with COLLINS.prm and
# -e 10000000), without the sign of NaNs.
PRINTED = Path(__file__).parent / "evalb_printed"

# COLLINS.prm without its comments.
PARAMETERS = """\
DEBUG 0
MAX_ERROR 10
CUTOFF_LEN 40
LABELED 1
DELETE_LABEL TOP
DELETE_LABEL -NONE-
DELETE_LABEL ,
DELETE_LABEL :
DELETE_LABEL ``
DELETE_LABEL ''
DELETE_LABEL .
DELETE_LABEL_FOR_LENGTH -NONE-
EQ_LABEL ADVP PRT
"""


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


def test_the_real_program_prints_the_same(tmp_path):
    program = shutil.which("evalb")
    if program is None:
        pytest.skip("no evalb on PATH; pip does not install it")
    parameters = tmp_path / "COLLINS.prm"
    parameters.write_text(PARAMETERS)
    pairs = [pair for pair in random_pairs(0, 400) if fits_evalb(*pair)]
    assert own_table(pairs) == run_evalb(program, str(parameters), pairs)
    # After the 12th error it stops without a summary.
    wrong = [(Tree("S", (Tree("NN", word="a"),)), Tree("S", (Tree("NN", word="b"),)))]
    for errors, ends in ((11, False), (12, True)):
        text = run_evalb(program, str(parameters), wrong * errors, errors=10)
        assert ("Summary" not in text) == ends
        assert len(re.findall(r"^ +\d+ +1 +1 ", text, re.MULTILINE)) <= errors
