import json

import pytest

from t2t_keras.errors import UserError
from t2t_keras.parsing.tree_scores import score_trees

SOURCES = ("the dog sleeps .", "it  adds up", "x")
REFERENCES = (
    "(S (NP DT NN )NP (VP VBZ )VP . )S",
    "(S (NP PRP )NP (VP VBZ (PRT RP )PRT )VP )S",
    "(NP NN )NP",
)
# Two of three brackets and a wrong one; all four brackets; no tree.
HYPOTHESES = (
    "(S (NP (DT the) (NN dog)) (X (VBZ sleeps) (. .)) (. .))".replace(
        " (. .)) (", ") ("
    ),
    "(S (NP (PRP it)) (VP (VBZ adds) (ADVP (RB up))))",
    "",
)


@pytest.fixture(scope="module")
def scores():
    return score_trees(SOURCES, HYPOTHESES, REFERENCES)


def test_scores_worked_out_by_hand(scores):
    # Brackets of the test trees 3 + 4, gold 3 + 4, matched 2 + 4; the last is no tree.
    name, f1 = scores.headline
    assert (name, f1) == ("F1", pytest.approx(100 * 6 / 7))
    entry = json.loads(json.dumps(scores.as_dict()))
    assert entry["recall"] == entry["precision"] == pytest.approx(100 * 6 / 7)
    assert entry["tagging"] == pytest.approx(100 * 5 / 6)
    assert entry["complete_match"] == 50.0
    assert (entry["valid"], entry["errors"], entry["skipped"]) == (2, 0, 1)
    assert entry["up_to_40_words"]["f1"] == entry["f1"]


def test_printed_lines_end_with_evalbs_summaries(scores):
    lines = scores.lines()
    assert lines[0].startswith("F1 85.71  labeled brackets as EVALB counts them")
    assert lines[1].startswith("F1 85.71  of all sentences")
    assert "Bracketing FMeasure       =  85.71" in lines
    assert "-- len<=40 --" in lines
    assert scores.table.splitlines()[3].split()[:5] == ["1", "4", "0", "66.67", "66.67"]
    assert scores.table.endswith("\n".join(lines[2:]) + "\n")


def test_a_comma_tagged_as_a_noun_is_an_error_only_for_evalb():
    # The second tree has wrong tags, an error for EVALB. With the right tags it matches
    # both brackets: 2 + 2 matched, 2 + 2 gold, 3 + 2 in the test trees.
    scores = score_trees(
        ["a b", "a , b"],
        ["(S (NP (NN a)) (X (NN b)))", "(S (NP (NN a) (NN ,)) (, b))"],
        ["(S (NP NN )NP NN )S", "(S (NP NN , )NP NN )S"],
    )
    assert scores.as_dict()["errors"] == 1
    assert scores.as_dict()["f1"] == pytest.approx(100 * 2 * 2 / (2 + 3))
    expected = 100 * 2 * 4 / (4 + 5)
    assert scores.headline == ("F1", pytest.approx(expected))
    assert scores.as_dict()["f1_with_right_tags"] == pytest.approx(expected)
    lines = scores.lines()
    assert lines[0].startswith("F1 80.00  ") and "without 1 sentences" in lines[0]
    assert lines[1].startswith("F1 88.89  ")


def test_another_cutoff_length():
    """Sentences of 2, 3 and 4 words; up to 3 words, one of two brackets matches."""
    trees = ["(S (NN a) (NN b))", "(X (NN a) (NN b) (NN c))", f"(S{' (NN a)' * 4})"]
    symbols = ["(S NN NN )S", "(S NN NN NN )S", "(S NN NN NN NN )S"]
    scores = score_trees(["a b", "a b c", "a a a a"], trees, symbols, cutoff_length=3)
    entry = scores.as_dict()
    assert entry["f1"] == pytest.approx(100 * 2 / 3)
    assert entry["up_to_3_words"]["f1"] == 50.0
    assert "up_to_40_words" not in entry
    for text in ("\n".join(scores.lines()), scores.table):
        assert text.split("-- len<=3 --")[1].split()[4] == "2"


@pytest.mark.parametrize(
    "reference",
    [
        "(S DT NN )S",
        "(S DT NN VBZ . )S .",
        "(S DT NN VBZ .",
        "Der Hund schläft .",
        "(S (X )X DT NN VBZ . )S",
        "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))",
    ],
)
def test_a_reference_that_is_no_tree_is_refused(reference):
    with pytest.raises(UserError, match="Reference 2 is not a tree over the 4 words"):
        score_trees(["x", SOURCES[0]], ["", ""], ["(NP NN )NP", reference])


def test_sides_of_unequal_length_or_without_sentences():
    with pytest.raises(UserError, match="2 translations and 1 references"):
        score_trees(["a", "b"], ["", ""], ["(S NN )S"])
    with pytest.raises(UserError, match="no sentence to score"):
        score_trees([], [], [])


def test_a_perfect_parse_of_raw_brackets_is_perfect():
    """Text has "(" where a treebank, and so a parser's tree, has -LRB-."""
    symbols = "(S (NP PRP -LRB- (NP NNP )NP -RRB- )NP (VP VBZ )VP . )S"
    parse = (
        "(S (NP (PRP he) (-LRB- {0}LRB-) (NP (NNP Ann)) (-RRB- {0}RRB-)) "
        "(VP (VBZ sleeps)) (. .))"
    ).format("-")
    for sentence in ("he ( Ann ) sleeps .", "he -LRB- Ann -RRB- sleeps ."):
        entry = score_trees([sentence], [parse], [symbols]).as_dict()
        assert (entry["f1"], entry["valid"], entry["errors"]) == (100.0, 1, 0)
        assert entry["tagging"] == 100.0


def test_lines_with_an_empty_side_are_scored():
    scores = score_trees(
        ["", "the dog sleeps .", "the dog sleeps ."],
        ["", HYPOTHESES[0], "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))"],
        [REFERENCES[2], "", REFERENCES[0]],
    )
    # A sentence without words is skipped; words without a gold tree are an error.
    entry = scores.as_dict()
    assert (entry["skipped"], entry["errors"], entry["valid"]) == (1, 1, 1)
    assert entry["f1"] == 100.0
