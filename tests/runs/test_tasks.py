import subprocess
import sys

import pytest
from sacrebleu.metrics.bleu import BLEU

from t2t_keras.errors import UserError
from t2t_keras.evaluation import tokenizers
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.parsing.task import tree_pairs
from t2t_keras.parsing.tree_scores import score_trees
from t2t_keras.runs.tasks import task_for, with_tokenizer
from t2t_keras.settings import training_config


def test_the_language_tree_makes_a_parser():
    task = task_for("tree")
    assert task.read_trees is tree_pairs
    assert task.text_adapter(splits_words=True).source("a.") == "a ."
    assert task.text_adapter(splits_words=False).source("a.") == "a."
    assert task.text_adapter(splits_words=False).answer("a", "") == "(TOP (NN a))"
    sides = ["a b", "a"], ["", "(X (NN a))"], ["(S NN NN )S", "(S NN )S"]
    assert task.scorer()(*sides) == score_trees(*sides)
    assert task.scorer(1)(*sides) == score_trees(*sides, cutoff_length=1)
    assert score_trees(*sides) != score_trees(*sides, cutoff_length=1)


def test_any_other_language_makes_a_translator():
    for language in ("de", "trees", "Tree", ""):
        task = task_for(language)
        assert task.read_trees is None, repr(language)
        adapter = task.text_adapter(splits_words=True)
        assert adapter.source(b"a.") == b"a.", repr(language)
        assert adapter.answer("a", "(S") == "(S", repr(language)


def test_a_cutoff_length_needs_trees():
    message = "--cutoff_length is for a parser's scores, .* into 'de'.*: 1$"
    with pytest.raises(UserError, match=message):
        task_for("de").scorer(1)


def test_translations_are_scored_by_bleu():
    scores = task_for("de").scorer()(["x"], ["ein Haus"], ["ein Haus."])
    assert scores == corpus_scores(["ein Haus"], ["ein Haus."])
    name, value = scores.headline
    assert (name, value) == ("BLEU", corpus_scores(["ein Haus"], ["ein Haus."]).bleu)
    assert scores.lines()[0].startswith(f"BLEU {value:.2f}  BLEU|nrefs:1|")
    assert scores.as_dict()["bleu"] == value


def test_the_language_or_a_setting_chooses_the_tokenizer():
    sides = [""], ["天气很好。走吧"], ["天气很好。走吧。"]
    for language, tokenize, expected in (
        ("zh", None, "zh"),
        ("zh-TW", "13a", "13a"),
        ("th", "char", "char"),
        ("th", None, "13a"),
    ):
        task = with_tokenizer(task_for(language), tokenize)
        assert task.scorer()(*sides) == corpus_scores(*sides[1:], expected)
    assert set(training_config.TOKENIZERS) < set(BLEU.TOKENIZERS)
    assert training_config.TOKENIZERS == tokenizers.TOKENIZERS
    parser = task_for("tree")
    assert with_tokenizer(parser, "13a") is parser


def test_parsing_is_imported_for_trees_only():
    code = (
        "import sys\n"
        "from t2t_keras.runs.tasks import task_for\n"
        "task_for('de').scorer()\n"
        "print([name for name in sys.modules if name.startswith('t2t_keras.parsing')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
