import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.evaluation.judging import form_of, judge_of, judged_translations
from t2t_keras.evaluation.tree_scores import judged_trees


def test_a_run_that_writes_trees_is_a_parser():
    assert judge_of("tree") is judged_trees
    assert form_of("tree", splits_words=True).source("a.") == "a ."
    assert form_of("tree", splits_words=False).source("a.") == "a."
    assert form_of("tree", splits_words=False).answer("a", "") == "(TOP (NN a))"


def test_any_other_run_is_a_translator():
    for language in ("de", "trees", "Tree", ""):
        assert judge_of(language) is judged_translations, repr(language)
        form = form_of(language, splits_words=True)
        assert form.source(b"a.") == b"a.", repr(language)
        assert form.answer("a", "(S") == "(S", repr(language)


def test_a_cut_off_is_of_trees_alone():
    sides = ["a b", "a"], ["", "(X (NN a))"], ["(S NN NN )S", "(S NN )S"]
    assert judge_of("tree", 1)(*sides) == judged_trees(*sides, cutoff_length=1)
    message = (
        "--cutoff_length is of a parser's scores, and this model .* into 'de'.*: 1$"
    )
    with pytest.raises(UserError, match=message):
        judge_of("de", 1)


def test_translations_are_scored_by_bleu():
    scores = judged_translations(["x"], ["ein Haus"], ["ein Haus."])
    assert scores == corpus_scores(["ein Haus"], ["ein Haus."])
    assert scores.headline == ("BLEU", scores.bleu)
    assert scores.lines()[0] == f"BLEU {scores.bleu:.2f}  {scores.bleu_signature}"
    assert scores.facts()["chrf"] == scores.chrf
