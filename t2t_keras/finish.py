"""What follows the last update: the mean of checkpoints, a score, an export."""

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_keras import checkpoints, experiment, scoring
from t2t_keras.config import DecodingConfig
from t2t_keras.decoding.settings import BeamSearchSettings
from t2t_keras.model_dir import ModelDir, write_text
from t2t_keras.serving.saved_model import TranslatorModule, save_translator


def finish(model_dir: ModelDir) -> None:
    """Averages, scores and exports a trained run, and says what to do next."""
    config = model_dir.config()
    average_last(model_dir, config.training.average_checkpoints)
    trained = experiment.load_trained(model_dir, "averaged")
    corpus = experiment.build_corpus(config.data, ("test",))
    results = ""
    if "test" in corpus.splits:
        _say("translating the test set …")
        test_set = scoring.read_split(corpus, "test")
        for warning in test_set.warnings:
            _say(f"warning: {warning}")
        report = scoring.score(trained, test_set, config.decoding)
        keep(model_dir, report)
        results = f"{report.describe()}\n\n{_samples(test_set, report)}\n"
    export = _newest_export_of(trained, model_dir, config.decoding)
    if export is None:
        _say("exporting …")
        export = export_translator(trained, model_dir, config.decoding)
    print(
        f"\n{results}"
        f"checkpoints  {model_dir.checkpoints}\n"
        f"averaged     {trained.checkpoint}\n"
        f"SavedModel   {export}\n\n"
        "Go on with:\n"
        f"  python -m t2t_keras.translate --model_dir={model_dir.path} < FILE\n"
        f"  python -m t2t_keras.evaluate --model_dir={model_dir.path}\n"
        f"  tensorboard --logdir={model_dir.tensorboard}"
    )


def _samples(test_set: scoring.TestSet, report: scoring.Report) -> str:
    """Returns three sentences and what became of them, from all over the set."""
    count = len(report.translations)
    lines = []
    for index in (0, count // 3, 2 * count // 3)[: min(3, count)]:
        lines.append(f"  {test_set.source[index].decode(errors='replace')}")
        lines.append(f"  → {report.translations[index].text}\n")
    return "\n".join(lines)


def average_last(model_dir: ModelDir, count: int) -> checkpoints.CheckpointState:
    """Averages the newest `count` checkpoints into the run's averaged folder."""
    steps = checkpoints.steps_in(model_dir.checkpoints)[-max(count, 1) :]
    return average_steps(model_dir, steps)


def average_steps(model_dir: ModelDir, steps: list[int]) -> checkpoints.CheckpointState:
    """Averages the checkpoints of some steps and notes which on the run card."""
    paths = [model_dir.checkpoints / f"step-{step}" for step in steps]
    target = model_dir.averaged / f"step-{steps[-1] if steps else 0}"
    state = checkpoints.average(paths, target)
    model_dir.update_run_card({"averaged": {"steps": list(state.averaged)}})
    return state


def keep(model_dir: ModelDir, report: scoring.Report) -> None:
    """Writes translations to the model directory and scores to the run card."""
    # By checkpoint too: the latest and the mean have the same step.
    name = f"{report.name}-{report.checkpoint.replace('/', '-')}.txt"
    lines = [line.text for line in report.translations]
    write_text(model_dir.translations / name, "".join(f"{line}\n" for line in lines))
    scores = model_dir.run_card().get("scores", {})
    of = f"{report.name} {report.checkpoint}"
    model_dir.update_run_card({"scores": {**scores, of: report.facts()}})


def export_translator(
    trained: experiment.TrainedModel, model_dir: ModelDir, decoding: DecodingConfig
) -> Path:
    """Writes a SavedModel of a trained model; returns its directory."""
    search = functools.partial(
        experiment.search_translations,
        trained.model,
        settings=BeamSearchSettings(
            beam_size=decoding.beam_size, alpha=decoding.alpha, n_best=1
        ),
        extra_length=decoding.extra_length,
    )
    weights: list[tf.Variable] = [weight.value for weight in trained.model.weights]
    module = TranslatorModule(
        search, weights, trained.vocabulary, experiment.longest_source(trained.model)
    )
    export = save_translator(module, model_dir.export)
    facts = _facts_of_export(trained, decoding)
    place = str(export.relative_to(model_dir.path))
    model_dir.update_run_card({"export": {"directory": place, **facts}})
    return export


def _newest_export_of(
    trained: experiment.TrainedModel, model_dir: ModelDir, decoding: DecodingConfig
) -> Path | None:
    """Returns the newest export if it is of the same weights and the same search.

    A run that is finished again would make a server that watches the folder load
    the same thing once more.
    """
    known = dict(model_dir.run_card().get("export", {}))
    export = model_dir.path / known.pop("directory", "")
    same = known == _facts_of_export(trained, decoding)
    return export if same and (export / "saved_model.pb").is_file() else None


def _facts_of_export(
    trained: experiment.TrainedModel, decoding: DecodingConfig
) -> dict[str, Any]:
    return {
        "checkpoint": f"{trained.checkpoint.parent.name}/{trained.checkpoint.name}",
        "step": trained.step,
        "averaged": list(checkpoints.read_state(trained.checkpoint).averaged),
        "decoding": dataclasses.asdict(decoding),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
