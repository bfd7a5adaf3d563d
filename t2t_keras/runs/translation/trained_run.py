"""The models of a training run in use: translation, scores, alignments, attention."""

import contextlib
import copy
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import keras

from t2t_keras.decoding.sampling import Sampling
from t2t_keras.errors import UserError, check_at_least, check_list
from t2t_keras.files.keras_import import check_backend
from t2t_keras.files.lines import pair_prefixes
from t2t_keras.files.logs import log_to
from t2t_keras.files.paths import expand
from t2t_keras.files.quiet import tensorflow_warnings_off
from t2t_keras.model.classes import class_name
from t2t_keras.model.sentence_maps import SentenceMaps
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs import models
from t2t_keras.runs.model_dir import Checkpoint, ModelDir
from t2t_keras.runs.tasks import Task
from t2t_keras.runs.translation import ensembles, scoring
from t2t_keras.runs.translation.line_translation import LineTranslator
from t2t_keras.runs.translation.map_maker import map_sentence
from t2t_keras.runs.translation.pair_scores import PairScore, check_pairs, score_pairs
from t2t_keras.runs.translation.request import TranslationRequest
from t2t_keras.runs.translation.scoring import EvaluationResult, score
from t2t_keras.runs.translation.word_aligner import build_aligner
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import Vocabulary
from t2t_keras.text.word_alignments import Link
from t2t_keras.translation.translator import TranslatedLine

logger = logging.getLogger(__name__)

_Method = TypeVar("_Method", bound=Callable[..., Any])

# Lines that are read, sorted by length, and translated together.
_LINES_PER_CHUNK = 1024


@contextlib.contextmanager
def logging_to(log: Callable[[str], object] | None) -> Iterator[None]:
    """Passes on what is logged, without TensorFlow's warnings of traced graphs."""
    with tensorflow_warnings_off(), log_to(log) if log else contextlib.nullcontext():
        yield


def in_run(method: _Method) -> _Method:
    """Returns a method of `Run` whose log goes to that of the run."""

    @functools.wraps(method)
    def call(self: "TrainedRun", *arguments: Any, **options: Any) -> Any:
        with logging_to(self._log):
            return method(self, *arguments, **options)

    return cast(_Method, call)


class TrainedRun:
    """What is done with the models of a run, without a change to them.

    See `Run`, whose base it is.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        task: Task | None = None,
        *,
        model: type[Transformer] | None = None,
        log: Callable[[str], object] | None = None,
    ):
        check_backend("tensorflow", keras.config.backend())
        self.model_dir = ModelDir(path)
        self._task = task
        self._class_name = None if model in (None, Transformer) else class_name(model)
        self._log = log
        self._models = ensembles.LastLoaded()
        self._languages: tuple[str | None, str | None] = (None, None)

    def for_languages(
        self, source: str | None = None, target: str | None = None
    ) -> Self:
        """Returns the run of a multilingual model, between two of its languages.

        Both have one loaded model, and the settings of the model directory. Methods
        raise `UserError` if the model does not translate between these languages.

        Args:
            source: Code of the language to translate from. Default: as before.
            target: The same of the language to translate to.
        """
        run = copy.copy(self)
        run._languages = source or self._languages[0], target or self._languages[1]
        return run

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The model directory."""
        return self.model_dir.path

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the run, once it has started."""
        run = self.model_dir
        stored = load_vocabulary(run.vocabulary_file, run.vocabulary_sha256)
        return stored.with_languages(*self._languages)

    @property
    def settings(self) -> ExperimentConfig:
        """The settings of the run, once it has started."""
        return self.model_dir.config()

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
        protect: bool = False,
        glossary: str | os.PathLike[str] | None = None,
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
            protect: Whether placeholders, tags, URLs and e-mail addresses come back
                unchanged and once each. Scores are then those of the rest of a line.
            glossary: File of terms that translations must have: on each line a source
                term, a tab and a target term. `TranslatedLine.unmet` has those that a
                translation lacks.
            alignments: Whether to link the words of each line with those of its best
                translation, in `TranslatedLine.alignment`.
            alignment_heads: Heads whose attention links words, as "LAYER:HEAD,...".
                Default: the head that guided alignment has trained in this run, or
                else all of the decoder's last layer, or of the last but one if it has
                more than four.
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
            protect,
            None if glossary is None else os.fspath(glossary),
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

    @in_run
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

    @in_run
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

    @in_run
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
        languages = self.vocabulary.languages
        test_set = scoring.read_test_set(
            self.model_dir,
            split,
            source,
            reference,
            self._task,
            languages and (languages.source, languages.target),
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

    @in_run
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

    @in_run
    def trained(
        self,
        checkpoint: Checkpoint = "averaged",
        ensemble_with: ensembles.Paths = (),
        shortlist: str | os.PathLike[str] | None = None,
        shortlist_size: int | None = None,
    ) -> models.TrainedModel:
        """Returns the model with its vocabulary and settings, and those with it."""
        trained_with = self.model_dir.config().model.model
        if self._class_name not in (None, trained_with):
            raise UserError(
                f"{self.path} was trained with {trained_with or 'Transformer'}. Make "
                f"the Run with that class. Received: model={self._class_name}"
            )
        return self._models.load(
            self.path,
            checkpoint,
            ensemble_with,
            shortlist,
            shortlist_size,
            *self._languages,
            task=self._task,
        )

    def _each(self, lines: Iterator[TranslatedLine]) -> Iterator[TranslatedLine]:
        """Yields the same lines, each computed as in a method of the run."""
        while True:
            with logging_to(self._log):
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
            ("translate", decoding, request, trained.languages),
            lambda: LineTranslator(trained, decoding, request),
        )
