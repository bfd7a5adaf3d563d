"""The end of a run: averaged checkpoint, test scores, exports and printed summary."""

import dataclasses
import json

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu import corpus_scores
from t2t_keras.files.logs import log_to
from t2t_keras.parsing.tree_scores import score_trees
from t2t_keras.runs import finish, models
from t2t_keras.runs.export import saved_model
from t2t_keras.runs.export.export_settings import ExportSettings
from t2t_keras.runs.training import averaging
from t2t_keras.runs.translation import scoring
from t2t_keras.training import checkpoints
from t2t_keras.training.checkpoints import StoredCheckpoint
from t2t_keras.translation.translator import TranslatedLine, Translation


def test_the_summary_at_the_end_of_training(short_run):
    """Scores, directories, three translations, and the next commands."""
    out = short_run.stdout
    path = short_run.model_dir.path
    assert "test: 10 sentences, averaged/step-60, beam 4, alpha 0.6" in out
    scores = short_run.model_dir.run_card()["scores"]["test averaged/step-60"]
    assert f"  BLEU {scores['bleu']:.2f}  BLEU|nrefs:1|" in out
    for kind, folder in (
        ("checkpoints", "checkpoints"),
        ("averaged", "averaged/step-60"),
    ):
        assert f"{kind:13}{path / folder}\n" in out
        assert (path / folder).is_dir()
    for index in (0, 3, 6):
        source, target = short_run.held_out[index]
        assert f"  {source}\n  → " in out
        assert len(target) == len(source)
    assert out.count("→") == 3
    assert f"python -m t2t_keras.translate --model_dir={path} < FILE" in out
    assert f"python -m t2t_keras.evaluate --model_dir={path}\n" in out


def test_the_run_card_is_complete(short_run):
    card = short_run.model_dir.run_card()
    assert card["averaged"] == {"steps": [30, 45, 60]}
    assert card["seed"] == short_run.seed
    assert card["scores"]["test averaged/step-60"]["bleu"] > 10
    assert card["scores"]["test averaged/step-60"]["sentences"] == 10
    assert set(card) >= {"started", "versions", "corpus", "vocabulary"}


def test_the_average_is_that_of_the_last_checkpoints(short_run):
    model_dir = short_run.model_dir
    steps = checkpoints.steps_in(model_dir.checkpoints)
    assert steps == [15, 30, 45, 60]
    each = [
        StoredCheckpoint(model_dir.checkpoints / f"step-{step}").weights()
        for step in (30, 45, 60)
    ]
    mean = StoredCheckpoint(model_dir.averaged / "step-60").weights()
    assert set(mean) == set(each[0])
    for name, value in mean.items():
        expected = np.mean([weights[name] for weights in each], axis=0, dtype="float64")
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-8)


def test_averaging_more_checkpoints_than_exist_averages_all(own_short_run):
    state = averaging.average_last(own_short_run, 99)
    assert list(state.averaged) == [15, 30, 45, 60]
    assert own_short_run.run_card()["averaged"] == {"steps": [15, 30, 45, 60]}


def test_nothing_to_average(own_short_run):
    with pytest.raises(UserError, match="There is no checkpoint to average"):
        averaging.average_steps(own_short_run, [])


@pytest.fixture
def result(own_short_run):
    lines = [
        TranslatedLine((Translation("gelb und\u00a0grün", -1.0, -2.0, 4),)),
        TranslatedLine((Translation("", 0.0, 0.0, 0),)),
    ]
    scores = corpus_scores([line.text for line in lines], ["gelb", "rot"])
    return scoring.EvaluationResult(
        "test",
        "averaged/step-77",
        77,
        scores,
        None,
        1.5,
        0,
        [b"yellow and green", b""],
        lines,
        2.0,
        own_short_run.config().decoding,
    )


def test_translations_and_scores_are_kept(own_short_run, result):
    before = own_short_run.run_card()
    scoring.save(own_short_run, result)
    written = own_short_run.translations / "test-averaged-step-77.txt"
    assert written.read_bytes() == "gelb und\u00a0grün\n\n".encode()
    card = json.loads(own_short_run.run_card_file.read_text())
    assert card["scores"]["test averaged/step-77"]["step"] == 77
    assert card["scores"]["test averaged/step-77"]["perplexity"] == 1.5
    assert card["seed"] == before["seed"]


def test_a_parsers_table_of_sentences_is_kept_beside_its_trees(own_short_run, result):
    scores = score_trees(["a", "b"], ["(S (NN a))", ""], ["(S NN )S", "(S NN )S"])
    scoring.save(own_short_run, dataclasses.replace(result, scores=scores))
    kept = own_short_run.translations / "test-averaged-step-77.txt.evalb"
    assert kept.read_text(encoding="utf-8") == scores.table
    assert own_short_run.run_card()["scores"]["test averaged/step-77"]["f1"] == 100.0


def test_results_of_other_search_settings_are_kept_apart(own_short_run, result):
    scoring.save(own_short_run, result)
    kept = own_short_run.translations / "test-averaged-step-77.txt"
    before = kept.read_bytes()
    decoding = dataclasses.replace(result.decoding, beam_size=1, alpha=1.5)
    other = dataclasses.replace(
        result,
        decoding=decoding,
        perplexity=2.5,
        translations=result.translations[:1],
    )
    scoring.save(own_short_run, other)
    scores = own_short_run.run_card()["scores"]
    assert scores["test averaged/step-77"] == result.as_dict()
    assert scores["test averaged/step-77 beam 1 alpha 1.5"] == other.as_dict()
    assert kept.read_bytes() == before
    apart = own_short_run.translations / "test-averaged-step-77-beam-1-alpha-1.5.txt"
    assert apart.read_bytes() == "gelb und\u00a0grün\n".encode()


def test_the_kept_translations_are_those_that_were_scored(short_run):
    kept = short_run.model_dir.translations / "test-averaged-step-60.txt"
    lines = kept.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    references = [target for _, target in short_run.held_out]
    card = short_run.model_dir.run_card()["scores"]["test averaged/step-60"]
    assert corpus_scores(lines, references).bleu == card["bleu"]
    assert sum(map(str.__eq__, lines, references)) >= 3
    # Without training it would be 10, the number of letters.
    assert card["perplexity"] < 2


@pytest.mark.slow
def test_settings_to_score_the_dev_set_and_export_nothing(own_short_run):
    """An ablation uses these settings; they may differ from the run's."""
    config = own_short_run.config()
    training = dataclasses.replace(config.training, score_split="dev")
    decoding = dataclasses.replace(config.decoding, beam_size=1)
    config = dataclasses.replace(config, training=training, decoding=decoding)
    own_short_run.check_same(config)
    own_short_run.write_config(config, "Scored on dev.")
    lines = []
    with log_to(lines.append):
        out = finish.finish(own_short_run).describe()
    assert "dev: 10 sentences, averaged/step-60" in out
    assert lines == ["translating the dev set …"]
    assert "SavedModel" not in out and "of ids" not in out
    assert not own_short_run.export.exists() and not own_short_run.export_ids.exists()
    scores = own_short_run.run_card()["scores"]
    assert scores["dev averaged/step-60"]["sentences"] == 10
    assert set(scores) == {"dev averaged/step-60", "test averaged/step-60"}


def test_an_export_is_identified_by_its_weights_and_settings(own_run):
    """Without a matching export, finishing a run exports again."""
    trained = models.load_trained(own_run, "averaged")
    earlier = models.load_trained(own_run, "450")
    settings = ExportSettings(trained.config.decoding)
    greedy = dataclasses.replace(settings.decoding, beam_size=1)
    greedy = dataclasses.replace(settings, decoding=greedy)

    def newest(model, export_settings):
        return saved_model.newest_export(model, own_run, "text", export_settings)

    card = own_run.run_card()["export"]
    assert (card["directory"], card["step"]) == ("export/1", 500)
    assert newest(trained, settings) == own_run.export / "1"
    assert newest(earlier, settings) is None
    assert newest(trained, greedy) is None
    (own_run.export / "1/saved_model.pb").unlink()
    assert newest(trained, settings) is None


def test_finishing_a_run_again_exports_nothing_new(own_run):
    """But other weights, or a missing export, make a new version."""
    first: list[str] = []
    with log_to(first.append):
        printed = finish.finish(own_run).describe()
    assert f"SavedModel   {own_run.export / '1'}\n" in printed
    assert f"  of ids     {own_run.export_ids / '1'}\n" in printed
    trained = models.load_trained(own_run, "450")
    settings = ExportSettings(trained.config.decoding)
    export = saved_model.export_saved_model(trained, own_run, "ids", settings)
    assert export == own_run.export_ids / "2"
    for base in (own_run.export, own_run.export_ids):
        (base / "models.config").write_text("mine")
    second: list[str] = []
    with log_to(second.append):
        printed = finish.finish(own_run).describe()
    assert f"SavedModel   {own_run.export / '1'}\n" in printed
    assert f"  of ids     {own_run.export_ids / '3'}\n" in printed
    # Nothing was exported to the first directory, so "kept" is logged for one only.
    assert second[-2:] == [
        "exporting ids …",
        f"kept in {own_run.export_ids}, though this export would write them "
        "differently: models.config. To replace them, delete them and export again.",
    ]
    assert not any("kept in" in line for line in [*first, *second[:-1]])
