"""Training run as a Python object, with everything that the programs do.

run = Run("runs/tiny", log=print)
run.train(read_settings("configs/tiny.flags"))
for line in run.translate(["The dog sleeps."], n_best=2):
    print(line.text)
"""

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import keras
import tensorflow as tf

from t2t_keras.decoding.sampling import Sampling
from t2t_keras.errors import UserError, check_at_least, check_list
from t2t_keras.files.keras_import import check_backend
from t2t_keras.files.lines import pair_prefixes
from t2t_keras.files.logs import log_to
from t2t_keras.files.paths import expand
from t2t_keras.files.quiet import tensorflow_warnings_off
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.model.sentence_maps import SentenceMaps
from t2t_keras.runs import models
from t2t_keras.runs.data.run_data import open_data
from t2t_keras.runs.finish import FinishedRun, train_and_finish
from t2t_keras.runs.model_dir import Checkpoint, ModelDir
from t2t_keras.runs.tasks import Task
from t2t_keras.runs.training import averaging
from t2t_keras.runs.training.average_options import AverageOptions
from t2t_keras.runs.translation import ensembles, scoring
from t2t_keras.runs.translation.line_translation import LineTranslator
from t2t_keras.runs.translation.map_maker import map_sentence
from t2t_keras.runs.translation.pair_scores import PairScore, check_pairs, score_pairs
from t2t_keras.runs.translation.request import TranslationRequest
from t2t_keras.runs.translation.scoring import EvaluationResult, score
from t2t_keras.runs.translation.word_aligner import build_aligner
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.word_alignments import Link
from t2t_keras.training.progress import OnRecord
from t2t_keras.translation.translator import TranslatedLine

logger = logging.getLogger(__name__)

_Method = TypeVar("_Method", bound=Callable[..., Any])

# Lines that are read, sorted by length, and translated together.
_LINES_PER_CHUNK = 1024


@contextlib.contextmanager
def _logging_to(log: Callable[[str], object] | None) -> Iterator[None]:
    """Passes on what is logged, without TensorFlow's warnings of traced graphs."""
    with tensorflow_warnings_off(), log_to(log) if log else contextlib.nullcontext():
        yield


def _in_run(method: _Method) -> _Method:
    """Returns a method of `Run` whose log goes to that of the run."""

    @functools.wraps(method)
    def call(self: "Run", *arguments: Any, **options: Any) -> Any:
        with _logging_to(self._log):
            return method(self, *arguments, **options)

    return cast(_Method, call)


class Run:
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
        log: Called with what is logged while a method runs, a line at a time. Default:
            the handlers of the logger "t2t_keras", which without any print nothing.

    Raises:
        UserError: If Keras runs on another backend than TensorFlow. By all methods, if
            an argument or a file cannot be used. The message is that of the programs:
            what, expected, received, and what to do.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        task: Task | None = None,
        *,
        log: Callable[[str], object] | None = None,
    ):
        check_backend("tensorflow", keras.config.backend())
        self.model_dir = ModelDir(path)
        self._task = task
        self._log = log
        self._models = ensembles.LastLoaded()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The model directory."""
        return self.model_dir.path

    @property
    def settings(self) -> ExperimentConfig:
        """The settings of the run, once it has started."""
        return self.model_dir.config()

    @_in_run
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
            settings,
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

    def translate(  # noqa: PLR0913 - each is optional, and by name
        self,
        lines: Iterable[str | bytes],
        *,
        n_best: int = 1,
        checkpoint: Checkpoint = "averaged",
        ensemble_with: ensembles.Paths = (),
        shortlist: str | os.PathLike[str] | None = None,
        shortlist_size: int | None = None,
        paragraphs: bool = False,
        target_tag: str | None = None,
        prefixes: Iterable[str | bytes] | None = None,
        sample: Sampling | None = None,
        rerank: str | None = None,
        candidates: int | None = None,
        alignments: bool = False,
        alignment_heads: str | None = None,
        lines_at_once: int = _LINES_PER_CHUNK,
        **search: Any,
    ) -> Iterator[TranslatedLine]:
        """Yields the translations of each line, in order.

        Lines are read on demand, so that a stream of any length can be translated. An
        empty line stays empty.

        Args:
            lines: Text, one sentence a line.
            n_best: Number of translations of each line, best first. A line has fewer
                if the search finds fewer; an empty line has one, which is empty.
            checkpoint: The weights to use.
            ensemble_with: Runs or checkpoints that translate together with it.
            shortlist: File of likely translations, which alone are considered. Made by
                `t2t_keras.prepare --shortlist`. Default: the whole vocabulary.
            shortlist_size: Number of tokens that it leaves for a sentence. Default:
                1,000.
            paragraphs: Whether lines are paragraphs, whose sentences are translated
                one by one. Spacing stays as it is.
            target_tag: Symbol of the vocabulary to put before each sentence.
            prefixes: Beginning of the translation of each line; "" for none.
            sample: Settings of sampling, to draw translations instead of searching.
            rerank: "mbr" to choose the translations with the highest expected chrF.
            candidates: Number of translations to choose from. Default: the beam size,
                or 32 samples.
            alignments: Whether to link the words of each line with those of its best
                translation, in `TranslatedLine.alignment`.
            alignment_heads: Heads whose attention links words, as "LAYER:HEAD,...".
                Default: the head that guided alignment has trained in this run, or
                else all of the decoder's last layer but one.
            lines_at_once: Number of lines that are read, sorted by length, and
                translated together. Fewer give the first translation sooner, more are
                faster.
            **search: Settings of the search, fields of `DecodingConfig` by name, such
                as `beam_size=8`. Default: the run's own.
        """
        check_list("Lines of text", lines)
        if prefixes is not None:
            check_list("Prefixes, one for each line,", prefixes)
        check_at_least(1, lines_at_once=lines_at_once)
        request = TranslationRequest(
            n_best,
            sample,
            rerank,
            candidates,
            prefixes is not None,
            paragraphs,
            target_tag,
            alignments,
            alignment_heads,
        )
        trained = self.trained(checkpoint, ensemble_with, shortlist, shortlist_size)
        translator = self._translator(trained, search, request)
        if prefixes is None:
            pairs = ((line, "") for line in lines)
        else:
            pairs = pair_prefixes(lines, prefixes)
        return self._each(translator.translate(pairs, lines_at_once))

    @_in_run
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

    @_in_run
    def score(
        self,
        pairs: Iterable[tuple[str | bytes, str | bytes]],
        *,
        checkpoint: Checkpoint = "averaged",
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> list[PairScore]:
        """Returns the log probability of each target, given its source.

        Args:
            pairs: Source and target text.
            checkpoint: The weights to use.
            on_progress: Called with the number of pairs done since the last call.
        """
        return score_pairs(self.trained(checkpoint), check_pairs(pairs), on_progress)

    @_in_run
    def align(
        self,
        pairs: Iterable[tuple[str | bytes, str | bytes]],
        *,
        alignment_heads: str | None = None,
        checkpoint: Checkpoint = "averaged",
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> list[tuple[Link, ...]]:
        """Returns the links between the words of each source and its target.

        Args:
            pairs: Source and target text.
            alignment_heads: As in `translate`.
            checkpoint: The weights to use.
            on_progress: Called with the number of pairs done since the last call.
        """
        aligner = build_aligner(self.trained(checkpoint), alignment_heads)
        pairs = check_pairs(pairs)
        return aligner.align(pairs, on_progress=on_progress)

    @_in_run
    def evaluate(  # noqa: PLR0913 - each is optional, and by name
        self,
        source: scoring.Paths = (),
        reference: scoring.Paths = (),
        *,
        split: str = "test",
        checkpoint: Checkpoint = "averaged",
        ensemble_with: ensembles.Paths = (),
        shortlist: str | os.PathLike[str] | None = None,
        shortlist_size: int | None = None,
        output: str | os.PathLike[str] | None = None,
        on_progress: Callable[[int], object] = lambda _: None,
        **options: Any,
    ) -> EvaluationResult:
        """Translates and scores a split of the run's corpus, or files.

        The result for a split is also saved in the model directory, unless it is that
        of an ensemble, with a shortlist, or by a given `tokenize`.

        Args:
            source: Files to translate, or one. Default: those of the split.
            reference: Files with the references, or one.
            split: "train", "dev" or "test".
            checkpoint: The weights to use.
            ensemble_with: Runs or checkpoints that translate together with it.
            shortlist: As in `translate`. The perplexity is without it.
            shortlist_size: As in `translate`.
            output: File for the translations, instead of the model directory.
            on_progress: Called with the number of sentences done since the last call.
            **options: Settings of the search, as in `translate`, and further options of
                `t2t_keras.runs.translation.scoring.score`.
        """
        tokenize = options.get("tokenize")
        saves = not (output or source or ensemble_with or shortlist or tokenize)
        if saves:
            self.model_dir.check_writable()
        test_set = scoring.read_test_set(
            self.model_dir, split, source, reference, self._task
        )
        trained = self.trained(checkpoint, ensemble_with, shortlist, shortlist_size)
        of_scores = scoring.warnings_of_scores(trained, test_set, tokenize)
        for warning in (*test_set.warnings, *of_scores):
            logger.warning(warning)
        search = {
            field.name: options.pop(field.name)
            for field in dataclasses.fields(DecodingConfig)
            if field.name in options
        }
        result = score(
            trained,
            test_set,
            self.settings.decoding.override(**search),
            on_progress=on_progress,
            **options,
        )
        if output:
            scoring.write_translations(expand(output), result)
        elif saves:
            scoring.save(self.model_dir, result)
        return result

    @_in_run
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

    @_in_run
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
                token ids; "ctranslate2"; "transformers"; or "keras".
            checkpoint: The weights to use.
            ensemble_with: Runs or checkpoints whose models are exported with it.
            shortlist: As in `translate`.
            shortlist_size: As in `translate`.
            **options: Settings of the search, as in `translate`, and fields of
                `ExportSettings`, such as `n_best` or `batch_sizes`; `quantization` for
                CTranslate2, `allow_approximate` for transformers.
        """
        from t2t_keras.runs.export.export_settings import (
            ExportSettings,
            check_one_model,
            check_packages,
        )
        from t2t_keras.runs.export.formats import export_model

        check_packages(export_format)
        check_one_model(export_format, ensemble_with, shortlist)
        of_others = "quantization", "allow_approximate"
        others = {name: options.pop(name) for name in of_others if name in options}
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

    @_in_run
    def attention(
        self,
        source: str,
        target: str | None = None,
        *,
        checkpoint: Checkpoint = "averaged",
    ) -> SentenceMaps:
        """Returns the attention maps of a sentence and its translation.

        Args:
            source: The sentence.
            target: Its translation. Default: the model's own.
            checkpoint: The weights to use.
        """
        return map_sentence(self.trained(checkpoint), source, target)

    def trained(
        self,
        checkpoint: Checkpoint = "averaged",
        ensemble_with: ensembles.Paths = (),
        shortlist: str | os.PathLike[str] | None = None,
        shortlist_size: int | None = None,
    ) -> models.TrainedModel:
        """Returns the model with its vocabulary and settings, and those with it."""
        self.model_dir.config()  # raises if this is not a model directory
        return self._models.load(
            self.path, checkpoint, ensemble_with, shortlist, shortlist_size, self._task
        )

    def _each(self, lines: Iterator[TranslatedLine]) -> Iterator[TranslatedLine]:
        """Yields the same lines, each computed as in a method of the run."""
        while True:
            with _logging_to(self._log):
                line = next(lines, None)
            if line is None:
                return
            yield line

    def _translator(
        self,
        trained: models.TrainedModel,
        search: Mapping[str, Any],
        request: TranslationRequest,
    ) -> LineTranslator:
        request.check_search(search)
        decoding = self.settings.decoding.override(**search)
        return trained.keep(
            ("translate", decoding, request),
            lambda: LineTranslator(trained, decoding, request),
        )


def import_model(
    source_format: str,
    source: str | os.PathLike[str],
    model_dir: str | os.PathLike[str],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
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
        target_space_id: As in `read_model`.
        log: As in `Run`.

    Raises:
        UserError: If the model cannot be imported; nothing is written then.
    """
    from t2t_keras.interop.formats import read_model
    from t2t_keras.runs.training.imported_run import check_new, write_model_dir

    path = expand(model_dir)
    run = Run(path, log=log)
    check_new(path)
    with _logging_to(log):
        write_model_dir(
            read_model(source_format, expand(source), target_space_id),
            path,
            source_format,
            languages=(source_language, target_language),
        )
    return run
