"""Training run as a Python object, with what the programs do to a model directory.

run = Run("runs/tiny", log=print)
run.train(read_settings("configs/tiny.flags"))
for line in run.translate(["The dog sleeps."], n_best=2):
    print(line.text)
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files.paths import expand
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.runs.data.run_data import open_data
from t2t_keras.runs.finish import FinishedRun, train_and_finish
from t2t_keras.runs.model_dir import Checkpoint
from t2t_keras.runs.training import averaging
from t2t_keras.runs.training.average_options import AverageOptions
from t2t_keras.runs.translation import ensembles
from t2t_keras.runs.translation.trained_run import TrainedRun, in_run, logging_to
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.training.progress import OnRecord


class Run(TrainedRun):
    """A training run and its models, in a model directory.

    The programs use the same directory: a run that `python -m t2t_keras.train` started
    can be resumed here, and the reverse. Methods that use a model take `checkpoint`:
    "averaged" (the average written at the end of training, or else the latest),
    "latest", "best", a step number, or a checkpoint's folder. Some also take
    `ensemble_with`, other model directories or folders of checkpoints, whose models
    average their probabilities with it; and `shortlist`, a file that restricts the
    tokens of a search, with `shortlist_size`. A model stays loaded while calls name the
    same checkpoints and shortlist.

    Args:
        path: The model directory. It need not exist before `train`.
        task: Converts text to and from the model's, and scores it. Default:
            translation, or parsing if the target language is "tree".
        model: Class of the model, a subclass of `Transformer` at the level of a module.
            The run stores its name, by which programs find it. Default: that of the
            settings, `--model`, or `Transformer` itself.
        log: Called with what is logged while a method runs, a line at a time. Default:
            the handlers of the logger "t2t_keras", which without any print nothing.

    Raises:
        UserError: If Keras runs on another backend than TensorFlow. By all methods, if
            an argument or a file cannot be used. The message is that of the programs:
            what, expected, received, and what to do.
    """

    @in_run
    def train(
        self,
        settings: ExperimentConfig | None = None,
        *,
        on_record: OnRecord = lambda step, values: None,
    ) -> FinishedRun:
        """Trains to the last step, or resumes; then averages, scores and exports.

        SIGINT and SIGTERM in the main thread save a checkpoint; the same call
        continues from there.

        Args:
            settings: From `read_settings`. Default: those of the run.
            on_record: Called with the step and its numbers by name, such as "loss",
                "learning_rate" and "dev_loss", every `log_steps` updates.

        Raises:
            TrainingInterrupted: After a signal.
        """
        if settings is None:
            settings = self.settings
        if not isinstance(settings, ExperimentConfig):
            raise UserError(
                "Run.train takes settings that read_settings returned, as in "
                'run.train(read_settings("configs/tiny.flags")). Received: '
                f"{settings!r:.60}"
            )
        finished = train_and_finish(
            self._with_class(settings),
            self.model_dir,
            task=self._task,
            on_record=on_record,
        )
        if finished is None:
            raise UserError(
                "Run.train is for one process, and this is one of several workers of a "
                "cluster. Start all workers with python -m t2t_keras.train."
            )
        return finished

    def _with_class(self, settings: ExperimentConfig) -> ExperimentConfig:
        """Returns the settings with the class of the model that the run was made with.

        Raises:
            UserError: If they have another one.
        """
        name, given = self._class_name, settings.model.model
        if name is None or given == name:
            return settings
        if given is not None:
            raise UserError(
                f"The run has model={name}, and the settings have --model={given}. "
                "Give one of them."
            )
        model = dataclasses.replace(settings.model, model=name)
        return dataclasses.replace(settings, model=model)

    @in_run
    def batches(self) -> tf.data.Dataset:
        """Returns the training batches of the run, in the order of its updates.

        The dataset is endless. Each element has the features of
        docs/adr/0002-batch-contract.md: those that `fit_arguments` takes, unless the
        run packs its batches. The text is read and tokenized first.
        """
        config = self.settings
        data = open_data(config, self.model_dir, self._task, writes=False)
        batches = TrainingBatches(data.train, data.batching, seed=config.training.seed)
        return batches.dataset()

    @in_run
    def average(
        self,
        last: int | None = None,
        *,
        from_step: int | None = None,
        to_step: int | None = None,
        best: int | None = None,
    ) -> Path:
        """Averages checkpoints and returns the folder of the averaged checkpoint.

        Args:
            last: Number of newest checkpoints in the range to average. Default: all.
            from_step: First step of the range. Default: 0.
            to_step: Last step of the range. Default: that of the newest checkpoint.
            best: Number of checkpoints with the best monitored score to average,
                instead of those of a range; the run keeps `keep_best` of them.
        """
        options = AverageOptions(last, from_step, to_step, best)
        state = averaging.average_checkpoints(self.model_dir, options)
        return self.model_dir.averaged / f"step-{state.step}"

    @in_run
    def export(
        self,
        export_format: str = "text",
        *,
        checkpoint: Checkpoint = "averaged",
        ensemble_with: ensembles.Paths = (),
        shortlist: str | os.PathLike[str] | None = None,
        shortlist_size: int | None = None,
        **options: Any,
    ) -> Path:
        """Writes a model for servers and other programs, and returns its folder.

        Args:
            export_format: "text", a SavedModel with text in and out; "ids", one with
                token ids; "ctranslate2"; "argos"; "transformers"; "marian"; or "keras".
            checkpoint: The weights to use.
            ensemble_with: Runs or checkpoints whose models are exported with it.
            shortlist: As in `translate`.
            shortlist_size: As in `translate`.
            **options: Settings of the search, as in `translate`, and fields of
                `ExportSettings`, such as `n_best` or `batch_sizes`; `quantization` for
                CTranslate2 and Argos, `allow_approximate` for transformers, and
                `license_name` for the cards of both.
        """
        from t2t_keras.runs.export.export_settings import (
            ExportSettings,
            check_license,
            check_one_model,
            check_packages,
        )
        from t2t_keras.runs.export.formats import export_model

        check_packages(export_format)
        check_one_model(export_format, ensemble_with, shortlist)
        of_others = "quantization", "allow_approximate", "license_name"
        others = {name: options.pop(name) for name in of_others if name in options}
        if others.get("license_name") is not None:
            check_license(others["license_name"])
        settings = ExportSettings.from_options(self.settings.decoding, options)
        trained = self.trained(checkpoint, ensemble_with, shortlist, shortlist_size)
        return export_model(trained, self.model_dir, export_format, settings, **others)

    def export_ctranslate2(
        self, quantization: str = "float32", *, checkpoint: Checkpoint = "averaged"
    ) -> Path:
        """Writes a CTranslate2 model with its vocabulary, and returns its folder.

        Settings of the search are chosen when CTranslate2 translates.

        Args:
            quantization: Storage type of the weights: "float32", "float16", "int16",
                "int8" or "int8_float32".
            checkpoint: The weights to use.

        Raises:
            UserError: If CTranslate2 has no such model or storage type.
        """
        return self.export(
            "ctranslate2", checkpoint=checkpoint, quantization=quantization
        )

    def export_keras(self, *, checkpoint: Checkpoint = "averaged") -> Path:
        """Writes model.keras and the vocabulary, and returns their folder.

        Args:
            checkpoint: The weights to use.
        """
        return self.export("keras", checkpoint=checkpoint)


def import_model(
    source_format: str,
    source: str | os.PathLike[str],
    model_dir: str | os.PathLike[str],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    keep_vocabulary: Sequence[str | os.PathLike[str]] = (),
    target_space_id: int | None = None,
    log: Callable[[str], object] | None = None,
) -> Run:
    """Imports a model of another toolkit, and returns it as a run.

    Args:
        source_format: Name of its format, such as "marian"; see `read_model`.
        source: Folder of the model, or the file with its weights.
        model_dir: Model directory to write, which must not exist.
        source_language: Code of the language to translate from. Default: as the source
            says, or "und" for undetermined.
        target_language: The same of the language to translate to.
        keep_vocabulary: Files of text, to whose pieces the vocabulary is reduced.
        target_space_id: As in `read_model`.
        log: As in `Run`.

    Raises:
        UserError: If the model cannot be imported; nothing is written then.
    """
    from t2t_keras.interop.formats import read_model
    from t2t_keras.interop.trimming import trim_vocabulary
    from t2t_keras.runs.training.imported_run import check_new, write_model_dir

    path = expand(model_dir)
    run = Run(path, log=log)
    check_new(path)
    languages = source_language, target_language
    with logging_to(log):
        imported = read_model(source_format, expand(source), target_space_id, languages)
        if keep_vocabulary:
            imported = trim_vocabulary(imported, [*map(expand, keep_vocabulary)])
        write_model_dir(imported, path, source_format, languages=languages)
    return run
