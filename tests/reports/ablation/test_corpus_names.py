"""Corpora are called by their names, and files by theirs."""

from t2t_keras.reports.ablation.corpus_names import corpus_name, file_names
from t2t_keras.settings.config import DataConfig

FILES = DataConfig(
    train_source=("/texts/train.en", "/texts/more.en"),
    train_target=("/texts/train.de", "/other/more.de"),
)


def test_a_corpus_with_a_name_has_that_one() -> None:
    card = {"corpus": {"name": "grammar_ende/1.0.0 en-de"}}
    assert corpus_name(card, FILES) == "grammar_ende/1.0.0 en-de"
    assert corpus_name({}, FILES) == "unknown corpus"


def test_files_are_named_without_their_folders() -> None:
    card = {"corpus": {"name": "text files"}}
    assert corpus_name(card, FILES) == "train.en, more.en, train.de, more.de"
    # Of records made elsewhere there are no files.
    assert corpus_name(card, DataConfig(records="/x")) == "text files"


def test_many_files_are_counted_and_like_names_said_once() -> None:
    paths = [f"/{folder}/part-{i}.en" for folder in "ab" for i in range(7)]
    assert file_names(paths) == (
        "part-0.en, part-1.en, part-2.en, part-3.en and 3 more"
    )
    assert file_names([]) == ""
