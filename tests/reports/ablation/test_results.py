"""Results of an ablation: collected from finished runs, written and read again."""

import csv
import dataclasses

import pytest

from t2t_keras.errors import UserError
from t2t_keras.reports.ablation.parameters import parameter_count
from t2t_keras.reports.ablation.results import (
    Ablation,
    collect,
    read_results,
    run_result,
    write_results,
)
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.model_config import ModelConfig
from tests.reports.ablation.rows import small_plan, write_finished_run


@pytest.fixture
def some(tmp_path) -> Ablation:
    """Ablation with three of four runs, and one failure."""
    rows, runs = small_plan(tmp_path)
    for run, perplexity in zip(runs[:3], (8.0, 9.0, 8.5), strict=True):
        write_finished_run(run, perplexity)
    return collect(rows, runs, [("a1", 2, "no memory")])


def test_finished_runs_are_collected(some) -> None:
    assert [(run.row, run.seed, run.perplexity) for run in some.runs] == [
        ("base", 1, 8.0),
        ("a1", 1, 9.0),
        ("base", 2, 8.5),
    ]
    assert [run.perplexity for run in some.row_runs("base")] == [8.0, 8.5]
    first = some.runs[0]
    assert (first.seconds, first.devices, first.flops) == (1800, 2, 3e12)
    assert (first.bleu, first.tokenized_bleu) == (20.0, 21.0)
    assert (some.base, some.seeds, some.steps, some.sentences) == ("base", 2, 40, 50)
    assert some.corpus == "grammar_ende/1.0.0 en-de"
    base, a1 = some.rows
    assert (base.changes, a1.changes) == ({}, {"num_heads": 1})
    model = ModelConfig(d_model=16, num_heads=2)
    assert base.parameters == parameter_count(model, 300)


def test_they_are_read_as_they_were_written(some, tmp_path) -> None:
    write_results(some, tmp_path)
    assert read_results(tmp_path) == some


def test_the_tsv_has_a_line_a_run(some, tmp_path) -> None:
    missing = dataclasses.replace(some.runs[0], tokenized_bleu=None)
    write_results(dataclasses.replace(some, runs=(missing, *some.runs[1:])), tmp_path)
    with open(tmp_path / "ablation.tsv", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    assert [line["perplexity"] for line in lines] == ["8.0", "9.0", "8.5"]
    assert [line["tokenized_bleu"] for line in lines] == ["", "21.0", "21.0"]


def test_a_run_counts_when_all_its_steps_are_made_and_scored(tmp_path) -> None:
    _, runs = small_plan(tmp_path)
    run = runs[0]
    assert run_result(run) is None
    write_finished_run(run, 8.0, steps=30)
    assert run_result(run) is None
    write_finished_run(run, 8.0)
    assert run_result(run) is not None
    # Scored at the requested step, but trained further since.
    place = ModelDir(run.model_dir)
    cost = {**place.run_card()["training_cost"], "step": 50}
    place.update_run_card({"training_cost": cost})
    assert run_result(run) is None


def test_scores_of_another_search_are_not_the_rows(tmp_path) -> None:
    """Scores as `evaluate --split=dev --beam_size=1` of an earlier release wrote."""
    _, runs = small_plan(tmp_path)
    search = {"beam_size": 4, "alpha": 0.6, "extra_length": 50}
    write_finished_run(runs[0], 8.0, decoding={**search, "beam_size": 1})
    assert run_result(runs[0]) is None
    write_finished_run(runs[0], 8.0, decoding=search)
    assert run_result(runs[0]) is not None


def test_a_folder_of_another_run_is_refused(tmp_path) -> None:
    _, runs = small_plan(tmp_path)
    write_finished_run(dataclasses.replace(runs[1], model_dir=runs[0].model_dir), 8.0)
    message = r"other settings:\n  --num_heads: 1 in the model_dir, 2 now"
    with pytest.raises(UserError, match=message):
        run_result(runs[0])


def test_a_parser_is_no_row(tmp_path) -> None:
    _, runs = small_plan(tmp_path)
    write_finished_run(runs[0], 8.0)
    place = ModelDir(runs[0].model_dir)
    place.update_run_card({"scores": {"dev averaged/step-40": {"f1": 90.0}}})
    with pytest.raises(UserError, match=r"seed-1 has no BLEU: variations of trans"):
        run_result(runs[0])


UNREADABLE = (
    ("{", r"ablation\.json is damaged"),
    ("[]", r"ablation\.json is damaged"),
    ('{"version": 1}', r"ablation\.json is damaged"),
    ('{"version": 1, "rows": [{}], "runs": []}', r"ablation\.json is damaged"),
    ('{"version": 2}', r"of version 2, and this release reads 1"),
    (None, r"There is no ablation\.json in"),
)


def test_what_cannot_be_read_is_named(tmp_path) -> None:
    for text, message in UNREADABLE:
        (tmp_path / "ablation.json").unlink(missing_ok=True)
        if text is not None:
            (tmp_path / "ablation.json").write_text(text)
        with pytest.raises(UserError, match=message):
            read_results(tmp_path)
            pytest.fail(f"{text!r} was read")
