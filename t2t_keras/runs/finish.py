"""Training of a run and its final steps: checkpoint averaging, scoring, export."""

import contextlib
import dataclasses
import logging
import shlex
from collections.abc import Mapping
from pathlib import Path

from t2t_keras.errors import MissingPackage
from t2t_keras.runs import models
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.export.export_settings import SAVED_MODELS, ExportSettings
from t2t_keras.runs.export.saved_model import export_saved_model, newest_export
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.tasks import Task
from t2t_keras.runs.training import averaging, training_run, workers
from t2t_keras.runs.translation import scoring
from t2t_keras.settings.config import ExperimentConfig, make_paths_absolute
from t2t_keras.training.progress import OnRecord
from t2t_keras.training.strategy import is_chief

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """Results that a run has written at its end.

    Attributes:
        model_dir: Directory of the run.
        checkpoint: The averaged checkpoint.
        evaluation: Scores on --score_split; None if the corpus has no such split.
        exports: Directory of each export by its format, "text" and "ids".
    """

    model_dir: ModelDir
    checkpoint: Path
    evaluation: scoring.EvaluationResult | None
    exports: Mapping[str, Path]

    def describe(self) -> str:
        """Returns scores, samples, paths and next commands as text."""
        titles = {"text": "SavedModel   ", "ids": "  of ids     "}
        path = shlex.quote(str(self.model_dir.path))
        logs = shlex.quote(str(self.model_dir.tensorboard))
        results = ""
        if self.evaluation is not None:
            results = f"{self.evaluation.describe()}\n\n{_samples(self.evaluation)}\n"
        flags = scoring.evaluate_flags(self.model_dir.config())
        exports = [f"{titles[name]}{out}\n" for name, out in self.exports.items()]
        return (
            f"\n{results}"
            f"checkpoints  {self.model_dir.checkpoints}\n"
            f"averaged     {self.checkpoint}\n"
            f"{''.join(exports)}"
            "\nNext:\n"
            f"  python -m t2t_keras.translate --model_dir={path} < FILE\n"
            f"  python -m t2t_keras.evaluate --model_dir={path}{flags}\n"
            f"  python -m t2t_keras.report {path}\n"
            f"  tensorboard --logdir={logs}"
        )


def train_and_finish(
    config: ExperimentConfig,
    model_dir: ModelDir,
    *,
    task: Task | None = None,
    on_record: OnRecord = lambda step, values: None,
) -> FinishedRun | None:
    """Trains a run to its last step, or resumes it; then averages, scores and exports.

    Call it before TensorFlow computes anything if the settings ask for several
    devices.

    Args:
        config: The settings. The run stores absolute paths, so that it can be resumed
            in another working directory.
        model_dir: Directory of the run; created if missing, and locked meanwhile.
        task: Default: the task of the target language.
        on_record: Called with the step and the numbers of each record, by name.

    Returns:
        The results; None on workers other than the chief.

    Raises:
        UserError: If a setting or a file cannot be used; see the message.
        TrainingInterrupted: After a signal. The same call resumes the run.
    """
    config = make_paths_absolute(config)
    with workers.restore_tf32():
        strategy = workers.set_up_devices(config.training)
        chief = is_chief(strategy)
        if chief:
            model_dir.check_writable()
        with (
            model_dir.lock() if chief else contextlib.nullcontext(),
            workers.explain_lost_worker(strategy),
        ):
            training_run.train(
                config, model_dir, strategy, task=task, on_record=on_record
            )
            finished = finish(model_dir, task) if chief else None
            workers.wait_to_leave(strategy)
    return finished


def finish(model_dir: ModelDir, task: Task | None = None) -> FinishedRun:
    """Averages, scores and exports a trained run.

    Args:
        model_dir: Directory of the run.
        task: Default: the task of the run's target language.

    Raises:
        UserError: If a checkpoint or the test set cannot be used.
        OSError: If a file cannot be written.
    """
    config = model_dir.config()
    averaging.average_last(model_dir, config.training.average_checkpoints)
    trained = models.load_trained(model_dir, "averaged", task)
    evaluation = _evaluate(model_dir, trained)
    settings = ExportSettings(config.decoding)
    exports = {}
    for export_format in SAVED_MODELS if config.training.export_at_end else ():
        try:
            exports[export_format] = export_once(
                trained, model_dir, export_format, settings
            )
        except MissingPackage as error:  # after hours of training
            logger.warning(f"no export in the format {export_format}. {error}")
    return FinishedRun(model_dir, trained.checkpoint, evaluation, exports)


def _evaluate(
    model_dir: ModelDir, trained: models.TrainedModel
) -> scoring.EvaluationResult | None:
    """Returns the scores on --score_split; None if the corpus has no such split."""
    config = trained.config
    split = config.training.score_split
    corpus = from_settings.build_corpus(config.data, (split,), trained.task)
    if split not in corpus.splits:
        return None
    logger.info(f"translating the {split} set …")
    test_set = scoring.read_split(corpus, split)
    for warning in test_set.warnings:
        logger.warning(warning)
    result = scoring.score(trained, test_set, config.decoding)
    scoring.save(model_dir, result)
    return result


def _samples(result: scoring.EvaluationResult) -> str:
    """Returns three sentences from across the set, with their translations."""
    count = len(result.translations)
    lines = []
    for index in (0, count // 3, 2 * count // 3)[: min(3, count)]:
        lines.append(f"  {result.sources[index].decode(errors='replace')}")
        lines.append(f"  → {result.translations[index].text}\n")
    return "\n".join(lines)


def export_once(
    trained: models.TrainedModel,
    model_dir: ModelDir,
    export_format: str,
    settings: ExportSettings,
) -> Path:
    """Returns the export of these weights and settings, after writing it if missing."""
    version = newest_export(trained, model_dir, export_format, settings)
    if version is None:
        logger.info(f"exporting {export_format} …")
        version = export_saved_model(trained, model_dir, export_format, settings)
    return version
