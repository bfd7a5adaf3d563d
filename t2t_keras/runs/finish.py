"""End of a run: checkpoint averaging, scoring of a test set, and export."""

import re
import shlex
import sys
from pathlib import Path

from t2t_keras.errors import MissingPackage
from t2t_keras.runs import averaging, corpora, exporting, models, scoring
from t2t_keras.runs.export_settings import ExportSettings
from t2t_keras.runs.model_dir import ModelDir, write_text
from t2t_keras.settings.config import ExperimentConfig

# What every run ends with; other formats are asked for.
FORMATS = ("text", "ids")


def finish(model_dir: ModelDir) -> None:
    """Averages, scores and exports a trained run, and says what to do next."""
    config = model_dir.config()
    averaging.average_last(model_dir, config.training.average_checkpoints)
    trained = models.load_trained(model_dir, "averaged")
    results = _results(model_dir, config, trained)
    settings = ExportSettings(config.decoding)
    exports = {}
    for export_format in FORMATS if config.training.export_at_end else ():
        try:
            exports[export_format] = export_once(
                trained, model_dir, export_format, settings
            )
        except MissingPackage as error:  # after hours of training
            _say(
                f"warning: nothing was exported in the format {export_format}. {error}"
            )
    titles = {"text": "SavedModel   ", "ids": "  of ids     "}
    path = shlex.quote(str(model_dir.path))
    logs = shlex.quote(str(model_dir.tensorboard))
    print(
        f"\n{results}"
        f"checkpoints  {model_dir.checkpoints}\n"
        f"averaged     {trained.checkpoint}\n"
        + "".join(f"{titles[name]}{version}\n" for name, version in exports.items())
        + "\nGo on with:\n"
        f"  python -m t2t_keras.translate --model_dir={path} < FILE\n"
        f"  python -m t2t_keras.evaluate --model_dir={path}"
        f"{what_to_evaluate(config)}\n"
        f"  python -m t2t_keras.report {path}\n"
        f"  tensorboard --logdir={logs}"
    )


def what_to_evaluate(config: ExperimentConfig) -> str:
    """Returns the flags that `evaluate` needs besides, where there is no test set."""
    if "test" in corpora.build_corpus(config.data, ("test",)).splits:
        return ""
    return " --source=FILE --reference=FILE"


def _results(
    model_dir: ModelDir, config: ExperimentConfig, trained: models.TrainedModel
) -> str:
    """Returns in words how well a split was translated; nothing if it is missing."""
    split = config.training.score_split
    corpus = corpora.build_corpus(config.data, (split,))
    if split not in corpus.splits:
        return ""
    _say(f"translating the {split} set …")
    test_set = scoring.read_split(corpus, split)
    for warning in test_set.warnings:
        _say(f"warning: {warning}")
    report = scoring.score(trained, test_set, config.decoding)
    keep(model_dir, report)
    return f"{report.describe()}\n\n{_samples(test_set, report)}\n"


def _samples(test_set: scoring.TestSet, report: scoring.Report) -> str:
    """Returns three sentences and what became of them, from all over the set."""
    count = len(report.translations)
    lines = []
    for index in (0, count // 3, 2 * count // 3)[: min(3, count)]:
        lines.append(f"  {test_set.source[index].decode(errors='replace')}")
        lines.append(f"  → {report.translations[index].text}\n")
    return "\n".join(lines)


def keep(model_dir: ModelDir, report: scoring.Report) -> None:
    """Writes translations to the model directory and scores to the run card.

    Scores that each sentence has, as EVALB's, stand beside its translations. What
    another search than the run's own has found is kept apart, by the search's name.
    """
    # By checkpoint too: the latest and the mean have the same step.
    of = f"{report.name} {report.checkpoint}"
    if report.decoding != model_dir.config().decoding:
        of += f" beam {report.decoding.beam_size} alpha {report.decoding.alpha:g}"
    name = f"{re.sub('[ /]', '-', of)}.txt"
    lines = [line.text for line in report.translations]
    write_text(model_dir.translations / name, "".join(f"{line}\n" for line in lines))
    if report.scores.table:
        write_text(model_dir.translations / f"{name}.evalb", report.scores.table)
    scores = model_dir.run_card().get("scores", {})
    model_dir.update_run_card({"scores": {**scores, of: report.facts()}})


def export_once(
    trained: models.TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
) -> Path:
    """Returns the export of these weights and settings, written if need be."""
    version = exporting.newest_export(trained, model_dir, export_format, settings)
    if version is None:
        _say(f"exporting {export_format} …")
        version = exporting.export(trained, model_dir, export_format, settings)
        exporting.say_what_was_kept(model_dir, export_format, settings)
    return version


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
