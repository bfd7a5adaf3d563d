"""The recombine program, which augments a treebank."""

import gzip

import pytest

from t2t_keras.parsing.trees import read_trees
from tests.in_process import run_program

TREEBANK = """( (S (NP-SBJ-1 (DT the) (NN dog))
     (VP (VBZ sleeps) (S (-NONE- *-1))) (. .)))
(S (NP (DT a) (JJ small) (NN cat)) (VP (VBZ runs)) (. !)) (S (-NONE- *))
"""


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "train.mrg.gz"
    path.write_bytes(gzip.compress(TREEBANK.encode()))
    return path


def test_phrases_and_sentences_of_cleaned_trees(treebank, tmp_path):
    output = tmp_path / "more.mrg"
    done = run_program(
        "recombine", f"--treebank={treebank}", f"--output={output}", "--copies=3"
    )
    assert done.status == 0
    assert f"{output}: 2 phrases and 6 sentences" in done.stderr
    lines = output.read_text().splitlines()
    assert lines[:2] == ["(NP (DT the) (NN dog))", "(NP (DT a) (JJ small) (NN cat))"]
    trees = list(read_trees(lines))
    assert [tree.label for tree in trees] == ["NP"] * 2 + ["S"] * 6
    ends = [list(tree.leaves())[-1].word for tree in trees[2:]]
    assert ends == [".", "!"] * 3


def test_standard_output_holds_only_trees(treebank):
    done = run_program(
        "recombine", f"--treebank={treebank}", "--output=-", "--copies=0"
    )
    assert done.lines == [
        "(NP (DT the) (NN dog))",
        "(NP (DT a) (JJ small) (NN cat))",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "There is no file "),
        ("( (S (-NONE- *)))", "holds no tree with a word in it (--treebank)"),
        ("(S (NN a)", "train.mrg"),
    ],
)
def test_a_bad_treebank_leaves_no_output(text, message, tmp_path):
    path, output = tmp_path / "train.mrg", tmp_path / "more.mrg"
    if text is not None:
        path.write_text(text)
    done = run_program("recombine", f"--treebank={path}", f"--output={output}")
    assert done.status == 2
    assert message in done.stderr
    assert not output.exists()
