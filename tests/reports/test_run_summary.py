"""Run summary: contents read from a model directory."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.reports.run_summary import (
    corpus_name,
    format_settings,
    read_run,
)
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from tests.reports.runs import MODEL, build_score, write_run

FILES = DataConfig(
    train_source=("/texts/train.en", "/texts/more.en"),
    train_target=("/texts/train.de", "/other/more.de"),
)


def test_a_finished_run_is_read(tmp_path) -> None:
    run = write_run(tmp_path / "run")
    assert run.name == str(tmp_path / "run")
    assert run.corpus == "wmt14_translate/de-en"
    assert run.parameters == parameter_count(MODEL, 300)
    assert run.cost["flops"] == 2.5e18
    assert [line["step"] for line in run.metrics] == [10, 20, 20]


def test_the_newest_averaged_weights_count(tmp_path) -> None:
    scores = {
        "dev averaged/step-90": build_score(step=90),
        "test averaged/step-9": build_score(step=9, bleu=1.0),
        "test averaged/step-80": build_score(step=80, bleu=2.0),
        "test best/step-99": build_score(step=99, bleu=3.0),
        "test averaged/step-95": {"step": 95, "f1": 91.0},
    }
    found = write_run(tmp_path / "run", scores=scores).test_scores()
    assert found and found["bleu"] == 2.0
    assert write_run(tmp_path / "new", scores={}).test_scores() is None


def test_a_runs_own_search_counts_before_another(tmp_path) -> None:
    """An earlier release wrote both to one place; the other is used if it is alone."""
    greedy = build_score(decoding={"beam_size": 1, "alpha": 0.6, "extra_length": 50})
    own = build_score(bleu=3.0)
    names = "test averaged/step-40", "test averaged/step-40 beam 1 alpha 0.6"
    for number, scores in enumerate(((own, greedy), (greedy, own))):
        both = dict(zip(names, scores, strict=True))
        run = write_run(tmp_path / f"run-{number}", scores=both)
        assert run.test_scores() == own
    alone = write_run(tmp_path / "alone", scores={names[0]: greedy})
    assert alone.test_scores() == greedy
    assert alone.test_scores("f1") is None


def test_a_run_is_finished_when_all_its_updates_are_made(tmp_path) -> None:
    assert write_run(tmp_path / "a").finished
    assert not write_run(tmp_path / "b", training_cost={"step": 39}).finished
    assert not write_run(tmp_path / "c", training_cost={}).finished
    # Stopped early, and resumed with more patience afterwards.
    for step, finished in ((20, True), (39, False)):
        run = write_run(
            tmp_path / str(step),
            training_cost={"step": step},
            early_stop={"step": 20, "best_step": 10},
        )
        assert run.finished == finished


def test_a_run_that_has_just_begun(tmp_path) -> None:
    run = write_run(tmp_path / "run")
    run.place.run_card_file.unlink()
    run.place.metrics_file.write_text(
        '{"step": 10, "loss": 1}\n{"step": 2\n[3]\nnull\n'
    )
    run = read_run(str(tmp_path / "run"))
    assert (run.corpus, run.parameters, run.cost) == ("unknown corpus", None, {})
    assert [line["step"] for line in run.metrics] == [10]
    run.place.metrics_file.unlink()
    assert read_run(str(tmp_path / "run")).metrics == []


def test_what_is_no_run_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="is not a model directory"):
        read_run(str(tmp_path))
    run = write_run(tmp_path / "run")
    run.place.run_card_file.write_text("{")
    with pytest.raises(UserError, match=r"run_card\.json is damaged"):
        read_run(str(tmp_path / "run"))


def test_of_files_only_names_are_shown() -> None:
    data = DataConfig(
        dataset="wmt14_translate/de-en",
        train_source=(
            "/secret/place/a.en",
            "rel/b.en",
            "/secret/c:/secret/d:0.5",
            "/secret/t:1/12",
        ),
        records="/secret/records/",
        vocabulary_file="/secret/v.model",
        download=True,
    )
    shown = format_settings(ExperimentConfig(data))
    assert shown["train_source"] == "a.en, rel/b.en, c:d:0.5, t:1/12"
    assert shown["records"] == "records"
    assert shown["dataset"] == "wmt14_translate/de-en"
    assert (shown["download"], shown["d_k"]) == ("true", "not set")
    assert not any("secret" in text for text in shown.values())


def test_files_are_named_without_their_folders() -> None:
    card = {"corpus": {"name": "text files"}}
    assert corpus_name(card, FILES) == "train.en, more.en, train.de, more.de"
    # Records from elsewhere have no file names.
    assert corpus_name(card, DataConfig(records="/x")) == "text files"
