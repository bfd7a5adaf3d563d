"""Settings of existing records, compared with the requested settings."""

import dataclasses
import json
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.runs.data.record_checks import check_settings, without_corpus
from t2t_keras.settings.config import record_settings
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords

MADE_WITH = DataConfig(
    dataset="wmt14_translate/de-en", vocabulary_size=500, max_length=30
)


def check(made_with, config, sha256="0" * 64):
    # As read from a manifest.
    settings = json.loads(json.dumps(record_settings(made_with)))
    check_settings(settings, sha256, config, Path("rec"), advice="\nDo this.")


def test_settings_that_do_not_change_the_ids_may_differ():
    check(MADE_WITH, MADE_WITH)
    check(MADE_WITH, dataclasses.replace(MADE_WITH, tokens_per_batch=77, data_dir="x"))


def test_a_corpus_that_is_not_named_is_that_of_the_records():
    check(MADE_WITH, dataclasses.replace(MADE_WITH, dataset=None))
    files = dataclasses.replace(
        MADE_WITH, train_source=("a", "b"), train_target=("A", "B")
    )
    check(files, files)
    # Files replace a dataset, even one that a flagfile names.
    check(dataclasses.replace(files, dataset=None), files)
    check(files, without_corpus(files))


DIFFERENCES = (
    ("max_length", 31, "--max_length: 30 in the records, 31 now"),
    ("vocabulary_size", 8, "--vocabulary_size: 500 in the records, 8 now"),
    ("subwords", "unigram", "--subwords: bpe in the records, unigram now"),
    ("source_language", "fr", "--source_language: en in the records, fr now"),
    ("target_language", "fr", "--target_language: de in the records, fr now"),
    ("dataset", "x", "--dataset: wmt14_translate/de-en in the records, x now"),
)


def test_a_difference_is_shown():
    for name, value, row in DIFFERENCES:
        other = dataclasses.replace(MADE_WITH, **{name: value})
        with pytest.raises(UserError) as refused:
            check(MADE_WITH, other)
            pytest.fail(f"{name}={value} passed")
        assert str(refused.value) == (
            f"rec holds records of other settings:\n  {row}\nDo this."
        ), name


def test_all_differences_are_shown():
    other = dataclasses.replace(MADE_WITH, max_length=9, subwords="unigram")
    with pytest.raises(UserError) as refused:
        check(MADE_WITH, other)
    assert str(refused.value).count("in the records") == 2


def test_a_vocabulary_file_is_compared_by_what_it_holds(tmp_path):
    lines = ["the old house", "das alte Haus"] * 4
    vocabulary = SubwordVocabulary(learn_subwords(lines, vocabulary_size=290))
    path = tmp_path / "v.model"
    vocabulary.save(path)
    named = dataclasses.replace(
        MADE_WITH, vocabulary_file=str(path), vocabulary_size=7, subwords="unigram"
    )
    check(MADE_WITH, named, vocabulary.sha256)
    check(named, named, vocabulary.sha256)
    # Records made with a given vocabulary file can be used without it.
    check(named, MADE_WITH, vocabulary.sha256)
    with pytest.raises(UserError, match=r"--vocabulary_file: SHA-256 0{12}… in the re"):
        check(MADE_WITH, named)
