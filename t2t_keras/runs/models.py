"""Model and translator of a run, with new weights or those of a checkpoint."""

import dataclasses
import functools
import inspect
import logging
import os
import random
import threading
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import tensorflow as tf

from t2t_keras.decoding.search_state import BeamSearchResult
from t2t_keras.decoding.settings import BeamSearchSettings, RowOptions
from t2t_keras.decoding.shortlist import Shortlist
from t2t_keras.decoding.transformer_search import Ensemble, search_translations
from t2t_keras.errors import UserError
from t2t_keras.files.atomic import file_sha256
from t2t_keras.model.classes import find_class
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.model_dir import Checkpoint, ModelDir
from t2t_keras.runs.tasks import Task, TranslationTask, task_for, with_tokenizer
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.text.reading import TextAdapter
from t2t_keras.text.stored_vocabulary import load_vocabulary
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary
from t2t_keras.training.checkpoint_store import CheckpointStore
from t2t_keras.translation.translator import Search, Translator
from t2t_keras.typing import Tensor

logger = logging.getLogger(__name__)

# Maximum concurrent searches on CPUs. Each needs its own memory.
_MAX_SEARCHES = 4

# Maximum source length in tokens; longer sources are truncated. Memory of attention
# grows with the square of the length, and a sentence this long is a paragraph.
MAX_SOURCE_LENGTH = 512

# Maximum graphs that a loaded model keeps: searches of a few settings, scores, maps.
_MAX_KEPT = 8

_Kept = TypeVar("_Kept")


def find_decoder_start(config: ModelConfig, vocabulary: Vocabulary) -> int | str:
    """Returns the id of --decoder_start, or "zero" for the zero vector.

    Raises:
        UserError: If the vocabulary has no such piece, or it is padding, whose
            embedding is the zero vector.
    """
    if config.decoder_start == "zero":
        return config.decoder_start
    pieces = vocabulary.pieces(range(vocabulary.size))
    if config.decoder_start not in pieces[PAD_ID + 1 :]:
        raise UserError(
            "--decoder_start must be zero or a piece of the vocabulary other than "
            f"padding, such as {pieces[EOS_ID]}; a piece that begins a word has ▁ in "
            f"front. Received: {config.decoder_start}"
        )
    return pieces.index(config.decoder_start)


def build_model(
    config: ExperimentConfig,
    vocabulary_size: int,
    decoder_start: int | str = "zero",
    source_vocabulary_size: int | None = None,
) -> Transformer:
    """Returns the model with new weights, drawn from the run's seed.

    bfloat16 and float16 are Keras' mixed precision: weights stay float32. The random
    state of the caller's program is as before.

    Args:
        config: Settings of the run.
        vocabulary_size: Number of ids.
        decoder_start: Result of `find_decoder_start`.
        source_vocabulary_size: Number of ids of sources. Default: the same.

    Raises:
        ValueError: If `decoder_start` is missing.
        UserError: If the sources have other ids, and the embedding is shared; or the
            class of --model cannot be found.
    """
    if (decoder_start == "zero") != (config.model.decoder_start == "zero"):
        raise ValueError(
            "decoder_start must be the id of the setting's piece. Received: "
            f"{decoder_start} for {config.model.decoder_start}"
        )
    precision = config.training.precision
    policy = precision if precision == "float32" else f"mixed_{precision}"
    arguments = config.model.architecture()
    arguments["decoder_start"] = decoder_start
    source_size = source_vocabulary_size or vocabulary_size
    if not config.model.share_embeddings:
        arguments["source_vocabulary_size"] = source_size
    elif source_size != vocabulary_size:
        raise UserError(
            "The vocabulary has other pieces for each language, so the embedding "
            "cannot be shared. Use --noshare_embeddings."
        )
    model_class = find_class(config.model.model)
    # Initializers without a seed draw one from Python's generator, and nothing else.
    caller_state = random.getstate()
    random.seed(config.training.seed)
    try:
        model = model_class(vocabulary_size, **arguments, dtype=policy)
        model.build()
    finally:
        random.setstate(caller_state)
    return model


def build_translator(  # noqa: PLR0913 - most are optional
    model: Transformer | Ensemble,
    vocabulary: Vocabulary,
    config: DecodingConfig,
    n_best: int = 1,
    text_adapter: TextAdapter | None = None,
    sampling: Any = None,
    with_prefixes: bool = False,
    shortlist: Shortlist | None = None,
    with_terms: bool = False,
) -> Translator:
    """Returns a translator that traces the search once for all shapes.

    Args:
        model: The model.
        vocabulary: Vocabulary of both languages.
        config: Settings of the search.
        n_best: Number of translations of each line.
        text_adapter: Converts lines to sources, and outputs to translations.
        sampling: A `Sampling`, for translations that are drawn.
        with_prefixes: Whether the translator is given prefixes.
        shortlist: Restricts the tokens that the search considers, of a model of one
            pair of languages.
        with_terms: Whether the translator is given terms.
    """
    if sampling is not None:
        config = dataclasses.replace(config, beam_size=n_best)
    settings = dataclasses.replace(search_settings(config, n_best), sampling=sampling)
    has_languages = vocabulary.languages is not None
    search = _trace_search(
        functools.partial(
            search_translations,
            model,
            settings=settings,
            extra_length=config.extra_length,
            shortlist=shortlist,
        ),
        with_prefixes,
        with_seeds=sampling is not None,
        with_first_tokens=has_languages,
        with_terms=with_terms,
    )
    # Caches grow with the number of hypotheses; a beam is narrower.
    most_samples = 8
    divisor = max(1, n_best // most_samples) if sampling else 1
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    return Translator(
        search,
        vocabulary,
        max_source_length=longest_source(model),
        extra_length=config.extra_length,
        tokens_per_batch=4096 // divisor,
        max_searches=1 if has_gpu else min(os.cpu_count() or 1, _MAX_SEARCHES),
        text_adapter=text_adapter,
    )


def _trace_search(
    search: Callable[..., BeamSearchResult],
    with_prefixes: bool,
    with_seeds: bool,
    with_first_tokens: bool,
    with_terms: bool,
) -> Search:
    """Returns the search of a `Translator`, a graph for all shapes."""
    specs = {"prefixes": tf.TensorSpec([None, None], tf.int32)} if with_prefixes else {}
    if with_seeds:
        specs["seeds"] = tf.TensorSpec([None], tf.int64)
    if with_first_tokens:
        specs["first_tokens"] = tf.TensorSpec([None], tf.int32)
    if with_terms:
        specs["terms"] = tf.TensorSpec([None, None, None], tf.int32)
    ids = tf.TensorSpec([None, None], tf.int32)
    traced = tf.function(
        lambda source, options: search(source, options=RowOptions(**options)),
        input_signature=[ids, specs],
        autograph=False,
    )
    return lambda source, **options: traced(
        source,
        {name: tf.cast(options[name], spec.dtype) for name, spec in specs.items()},
    )


def search_settings(
    config: DecodingConfig, n_best: int | None = None
) -> BeamSearchSettings:
    """Returns the settings of a beam search for translations.

    Args:
        config: The settings of a run, or others.
        n_best: Number of translations. Default: the beam size.
    """
    return BeamSearchSettings(
        beam_size=config.beam_size,
        alpha=config.alpha,
        n_best=n_best,
        length_penalty=config.length_penalty,
        suppressed=(UNK_ID,) if config.suppress_unknown else (),
        min_length=config.min_length,
        no_repeat_ngram=config.no_repeat_ngram,
        renormalize=config.renormalize,
    )


def text_translator(
    trained: "TrainedModel",
    decoding: DecodingConfig,
    n_best: int = 1,
    sampling: Any = None,
    with_prefixes: bool = False,
    with_terms: bool = False,
) -> Translator:
    """Returns the translator of raw text that the program `translate` uses.

    The arguments are those of `build_translator`.

    Raises:
        UserError: If `n_best` exceeds the beam size of a search.
    """
    if sampling is None and not 1 <= n_best <= decoding.beam_size:
        raise UserError(
            f"--n_best must be from 1 to --beam_size={decoding.beam_size}. "
            f"Received: {n_best}"
        )
    text_adapter = trained.task.text_adapter(splits_words=True)
    return build_translator(
        trained.search_model,
        trained.vocabulary,
        decoding,
        n_best,
        text_adapter,
        sampling,
        with_prefixes,
        trained.shortlist,
        with_terms,
    )


def longest_source(model: Transformer | Ensemble) -> int:
    """Returns the maximum source length in tokens, including EOS; the rest is cut."""
    return min(MAX_SOURCE_LENGTH, model.max_positions or MAX_SOURCE_LENGTH)


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model from a model directory.

    Attributes:
        model: The model with the checkpoint's weights.
        vocabulary: The vocabulary it was trained with.
        config: The settings of its run.
        checkpoint: Directory of the checkpoint.
        step: Number of updates at the checkpoint.
        task: Converts text to and from the model's, and scores it.
        others: Models of other runs or checkpoints that it translates together with.
        shortlist: Restricts the tokens that a search considers; None for all.
    """

    model: Transformer
    vocabulary: Vocabulary
    config: ExperimentConfig
    checkpoint: Path
    step: int
    task: Task
    others: tuple["TrainedModel", ...] = ()
    shortlist: Shortlist | None = None
    # A model with other weights or settings, by `dataclasses.replace`, starts empty.
    # Keys of what depends on the vocabulary have its languages.
    _kept: dict[Hashable, Any] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # What is built may keep parts of its own.
    _lock: threading.RLock = dataclasses.field(
        default_factory=threading.RLock, init=False, repr=False, compare=False
    )

    def keep(self, key: Hashable, build: Callable[[], _Kept]) -> _Kept:
        """Returns what `build` returned for this key, from the last few keys.

        For what traces a graph of the model, which takes seconds. Threads may call it.
        """
        with self._lock:
            value = self._kept.pop(key) if key in self._kept else build()
            self._kept[key] = value  # now the newest
            while len(self._kept) > _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            return value

    def for_languages(
        self, source: str | None = None, target: str | None = None
    ) -> "TrainedModel":
        """Returns the model as a translator between two of its languages.

        It shares the weights.

        Args:
            source: Code of the language to translate from. Default: as it is.
            target: The same of the language to translate to.

        Raises:
            UserError: If the model does not translate between them.
        """
        data = self.config.data
        pair = source or data.source_language, target or data.target_language
        if pair == (data.source_language, data.target_language):
            return self
        vocabulary = self.vocabulary.with_languages(*pair)
        if vocabulary.languages is not None:
            pair = vocabulary.languages.source, vocabulary.languages.target
        else:
            raise UserError(
                "--source_language and --target_language choose languages of a "
                "multilingual model, and this one translates from "
                f"{data.source_language} to {data.target_language} alone. Leave them "
                f"out. Received: {pair[0]} and {pair[1]}"
            )
        data = dataclasses.replace(
            data, source_language=pair[0], target_language=pair[1]
        )
        task = self.task
        if isinstance(task, TranslationTask):
            tokenize = self.config.training.tokenize
            task = TranslationTask(pair[1]).with_tokenizer(tokenize)
        other = dataclasses.replace(
            self,
            vocabulary=vocabulary,
            config=dataclasses.replace(self.config, data=data),
            task=task,
        )
        for shared in ("_kept", "_lock"):
            object.__setattr__(other, shared, getattr(self, shared))
        return other

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of the languages that it translates from and to."""
        data = self.config.data
        return data.source_language, data.target_language

    @property
    def search_model(self) -> Transformer | Ensemble:
        """The model of searches and scores: this one, or the ensemble with `others`."""
        if not self.others:
            return self.model
        return Ensemble([self.model, *(other.model for other in self.others)])

    @property
    def run_folder(self) -> Path:
        """The model directory that has the checkpoint, absolute."""
        return self.checkpoint.resolve().parent.parent

    @property
    def checkpoint_name(self) -> str:
        """The checkpoint's folders, such as "averaged/step-1500"."""
        return f"{self.checkpoint.parent.name}/{self.checkpoint.name}"

    @property
    def checkpoint_names(self) -> str:
        """The checkpoint's folders, then those of the others with their runs."""
        others = (
            f"{other.run_folder.name}/{other.checkpoint_name}" for other in self.others
        )
        return " + ".join([self.checkpoint_name, *others])


def load_trained(
    model_dir: ModelDir, which: Checkpoint, task: Task | None = None
) -> TrainedModel:
    """Returns the model of a run.

    Args:
        model_dir: Directory of the run.
        which: The checkpoint; see `ModelDir.find_checkpoint`.
        task: Default: the task of the run's target language.

    Raises:
        UserError: If settings, vocabulary or checkpoint are missing or damaged, or do
            not belong together.
    """
    config = model_dir.config()
    check_class(config.model, model_dir)
    vocabulary = load_vocabulary(model_dir.vocabulary_file, model_dir.vocabulary_sha256)
    path = model_dir.find_checkpoint(which)
    start = find_decoder_start(config.model, vocabulary)
    model = build_model(config, vocabulary.size, start, vocabulary.source.size)
    state = CheckpointStore(path.parent, model).restore(path)
    check_fingerprint(path, state.fingerprints, vocabulary)
    tokenize = model_dir.run_card().get("bleu_tokenizer", config.training.tokenize)
    task = with_tokenizer(task or task_for(config.data.target_language), tokenize)
    return TrainedModel(model, vocabulary, config, path, state.step, task)


def describe_class(config: ModelConfig) -> dict[str, str | None] | None:
    """Returns what a run card has of the class of the model; None for `Transformer`.

    That is its name, and the SHA-256 of its file. A class of a notebook has no file.

    Raises:
        UserError: If the class cannot be found.
    """
    if config.model is None:
        return None
    try:
        file = Path(inspect.getfile(find_class(config.model)))
    except (TypeError, OSError):
        file = None
    digest = None if file is None or not file.is_file() else file_sha256(file)
    return {"class": config.model, "sha256": digest}


def check_class(config: ModelConfig, model_dir: ModelDir) -> None:
    """Logs a warning if the class of the model has another source than at the start.

    Raises:
        UserError: If the class cannot be found.
    """
    now, then = describe_class(config), model_dir.run_card().get("model")
    if now is not None and then is not None and now["sha256"] != then["sha256"]:
        logger.warning(
            f"the file of --model={config.model} has changed since the run in "
            f"{model_dir.path} was started. Its weights may mean something else now."
        )


def trace_on_ids(compute: Callable[[Tensor, Tensor], Any]) -> Any:
    """Returns a function of two matrices of ids, int32, traced once for all shapes."""
    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(compute, input_signature=[ids, ids], autograph=False)


def cast_to_precision(trained: TrainedModel, precision: str | None) -> TrainedModel:
    """Returns the model with its weights stored in the dtype that it computes in.

    Args:
        trained: A model, whose weights are float32 in any precision. The others of its
            ensemble are cast too.
        precision: float32 or bfloat16. Default: that of the run, but float32 for
            float16, which is slow on CPUs.
    """
    others = tuple(cast_to_precision(each, precision) for each in trained.others)
    trained = dataclasses.replace(trained, others=others)
    trained_in = trained.config.training.precision
    if precision is None:
        precision = "bfloat16" if trained_in == "bfloat16" else "float32"
    if precision == trained_in == "float32":
        return trained
    model = type(trained.model)(**trained.model.sizes, dtype=precision)
    model.build()
    for ours, theirs in zip(model.weights, trained.model.weights, strict=True):
        ours.assign(tf.cast(theirs.value, ours.dtype))
    return dataclasses.replace(trained, model=model)


def check_fingerprint(
    path: Path, fingerprints: Mapping[str, str], vocabulary: Vocabulary
) -> None:
    """Raises `UserError` if a checkpoint was trained with another vocabulary."""
    expected = fingerprints.get("vocabulary")
    if expected and expected != vocabulary.sha256:
        raise UserError(
            f"The checkpoint {path} was trained with another vocabulary: SHA-256 "
            f"{expected[:12]}…, but this vocabulary has {vocabulary.sha256[:12]}…. Its "
            "ids would mean other words. Use the vocabulary.model of its own run."
        )
